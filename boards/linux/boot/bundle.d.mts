/** What bundle.mjs gives; see there. */
export function bundleBoot(build: (options: never) => Promise<unknown>): Promise<string>
