/** How the page looks, with the colours of a timeline: light and dark, on a desk, on a phone. */

import { PALETTE } from '../../host-driver/command/timeline/page-style.ts'

export const PAGE_STYLE: string = `${PALETTE}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.45;
  font: 16px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; }
.soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; }
.pad { padding: 1rem; }
.verdict { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: baseline;
  margin-top: 1rem; padding: .9rem 1rem; border-radius: .7rem; }
.verdict strong { font-size: 1.15rem; }
.good { background: var(--good-soft); color: var(--good); }
.bad { background: var(--bad-soft); color: var(--bad); }
.warn { background: var(--pend-soft); color: var(--pend); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .7rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; font-size: .8rem; color: var(--soft); }
td { border-top: 1px solid var(--line); }
th:first-child, td:first-child, th.text, td.text { text-align: left; }
td.text { white-space: normal; min-width: 14rem; }
code { font: .85em/1.4 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
code.command { display: block; padding: .5rem .7rem; margin: .4rem 0 0; border-radius: .4rem;
  background: var(--band); overflow-x: auto; white-space: pre; }
ul.plain { list-style: none; margin: 0; padding: 0; }
ul.plain > li { padding: .7rem 1rem; border-top: 1px solid var(--line); }
ul.plain > li:first-child { border-top: 0; }
.bar { height: .5rem; border-radius: .25rem; background: var(--band); overflow: hidden;
  min-width: 8rem; position: relative; }
.bar i { display: block; height: 100%; background: var(--good); }
.bar i.short { background: var(--bad); }
.controls { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: end; }
label { font-size: .8rem; color: var(--soft); display: grid; gap: .2rem; }
select, button { font: inherit; color: var(--ink); background: var(--card); min-height: 2.3rem;
  border: 1px solid var(--line); border-radius: .4rem; padding: .25rem .6rem; }
button { cursor: pointer; }
.chip { display: inline-block; font-size: .78rem; font-weight: 600; border-radius: 1rem;
  padding: .05rem .6rem; background: var(--band); color: var(--soft); }
.chip.torn { background: var(--pend-soft); color: var(--pend); }
.chip.wrong { background: var(--bad-soft); color: var(--bad); }
.chip.old { background: var(--good-soft); color: var(--good); }
iframe { width: 100%; height: 48rem; border: 1px solid var(--line); border-radius: .5rem;
  margin-top: .8rem; }
details { border-top: 1px solid var(--line); padding: .6rem 1rem; }
details:first-child, li details { border-top: 0; }
li details { padding: .2rem 0 0; }
summary { cursor: pointer; font-weight: 600; }
.heat { display: grid; grid-template-columns: minmax(9rem, 22rem) 1fr; gap: .25rem .8rem;
  align-items: start; font-size: .8rem; margin-top: .7rem; }
.tiles { display: flex; flex-wrap: wrap; gap: 2px; }
.tiles i { width: .85rem; height: .85rem; border-radius: .15rem; background: var(--new); }
.readout { position: sticky; bottom: 0; background: var(--card); padding: .4rem 0;
  font-size: .8rem; min-height: 2rem; color: var(--soft); }
@media (max-width: 40rem) {
  main { padding: 1rem .7rem 3rem; }
  .heat { grid-template-columns: 1fr; }
}
`
