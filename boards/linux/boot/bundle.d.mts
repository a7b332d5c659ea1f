/** The script of perdure-boot: one that leaves the global `perdureBoot`. */
export function bundleBoot(): Promise<string>
