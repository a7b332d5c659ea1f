/** What is used of the instrumenter, which brings no types. */
declare module 'istanbul-lib-instrument' {
  export interface Place {
    readonly line?: number
    readonly column?: number
  }

  export interface BranchPlaces {
    readonly type: string
    readonly loc: { readonly start: Place }
    readonly locations: readonly { readonly start: Place }[]
  }

  export interface Instrumenter {
    instrumentSync(code: string, path: string): string
    lastFileCoverage(): { readonly branchMap: Readonly<Record<string, BranchPlaces>> }
  }

  export function createInstrumenter(options: {
    readonly esModules: boolean
    readonly compact: boolean
    readonly parserPlugins: readonly string[]
  }): Instrumenter
}
