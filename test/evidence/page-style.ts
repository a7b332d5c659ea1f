/** How the page looks: light and dark, on a desk and on a phone. */

export const PAGE_STYLE = `
:root {
  color-scheme: light dark;
  --paper: #f7f6f3; --card: #ffffff; --ink: #1d2430; --soft: #667085; --line: #dfe1e6;
  --good: #1f7a4d; --good-soft: #dff1e6; --bad: #b3261e; --bad-soft: #fbe1df;
  --warn: #8a5a00; --warn-soft: #fdf0d2; --accent: #2f5bd0; --accent-soft: #e3eafc;
  --durable: #e9ebef; --kept: #2f5bd0; --gone: #f3b54a; --same: #c9d4ea;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --card: #1c2027; --ink: #e7e9ee; --soft: #98a1b1; --line: #303641;
    --good: #6fd3a0; --good-soft: #17382a; --bad: #ff9a92; --bad-soft: #45201e;
    --warn: #f1c263; --warn-soft: #3f3115; --accent: #8fb0ff; --accent-soft: #22304f;
    --durable: #2b313b; --kept: #7ea2ff; --gone: #c98a24; --same: #43536f;
  }
}
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
.warn { background: var(--warn-soft); color: var(--warn); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .7rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; font-size: .8rem; color: var(--soft); }
td { border-top: 1px solid var(--line); }
th:first-child, td:first-child, th.text, td.text { text-align: left; }
td.text { white-space: normal; min-width: 14rem; }
code { font: .85em/1.4 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
code.command { display: block; padding: .5rem .7rem; margin: .4rem 0 0; border-radius: .4rem;
  background: var(--durable); overflow-x: auto; white-space: pre; }
ul.plain { list-style: none; margin: 0; padding: 0; }
ul.plain > li { padding: .7rem 1rem; border-top: 1px solid var(--line); }
ul.plain > li:first-child { border-top: 0; }
.bar { height: .5rem; border-radius: .25rem; background: var(--durable); overflow: hidden;
  min-width: 8rem; position: relative; }
.bar i { display: block; height: 100%; background: var(--good); }
.bar i.short { background: var(--bad); }
.controls { display: flex; flex-wrap: wrap; gap: .6rem 1rem; align-items: end; }
label { font-size: .8rem; color: var(--soft); display: grid; gap: .2rem; }
select, button { font: inherit; color: var(--ink); background: var(--card); min-height: 2.3rem;
  border: 1px solid var(--line); border-radius: .4rem; padding: .25rem .6rem; }
button { cursor: pointer; }
button[aria-pressed=true] { background: var(--accent); color: var(--card);
  border-color: var(--accent); }
.points { display: flex; flex-wrap: wrap; gap: .35rem; margin: 1rem 0; }
.points button { font-size: .85rem; }
.known { margin: 0 0 .8rem; }
.step { display: grid; grid-template-columns: auto 1fr auto; gap: .6rem; align-items: center; }
.step input { width: 100%; accent-color: var(--accent); }
.blocks { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; align-items: start; }
.block { flex: 0 1 18.5rem; min-width: min(100%, 15rem); }
.block header { display: flex; justify-content: space-between; align-items: center;
  margin-bottom: .35rem; font-weight: 600; }
.chunks { display: grid; grid-template-columns: repeat(8, 1fr); gap: .2rem; }
.chunk { aspect-ratio: 1; border-radius: .25rem; background: var(--durable); display: grid;
  place-items: center; font-size: .6rem; color: var(--soft); border: 1px solid transparent; }
.chunk.same { background: var(--same); }
.chunk.kept { background: var(--kept); color: var(--card); }
.chunk.gone { border: 1px dashed var(--gone); color: var(--gone);
  background: repeating-linear-gradient(135deg, transparent 0 4px, var(--durable) 4px 8px); }
.chip { display: inline-block; font-size: .78rem; font-weight: 600; border-radius: 1rem;
  padding: .05rem .6rem; background: var(--durable); color: var(--soft); }
.chip.new, .chip.A, .chip.B { background: var(--accent-soft); color: var(--accent); }
.chip.torn { background: var(--warn-soft); color: var(--warn); }
.chip.wrong { background: var(--bad-soft); color: var(--bad); }
.chip.old { background: var(--good-soft); color: var(--good); }
.after { margin-top: .45rem; font-size: .8rem; color: var(--soft); }
.outcome { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr));
  gap: 1rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.outcome h3 { margin: 0 0 .25rem; font-size: .8rem; color: var(--soft); font-weight: 600; }
.outcome p { margin: 0 0 .2rem; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; font-size: .8rem;
  color: var(--soft); margin-top: 1rem; }
.legend span { display: inline-flex; gap: .4rem; align-items: center; }
.legend .chunk { width: 1.1rem; }
details { border-top: 1px solid var(--line); padding: .6rem 1rem; }
details:first-child, li details { border-top: 0; }
li details { padding: .2rem 0 0; }
summary { cursor: pointer; font-weight: 600; }
.heat { display: grid; grid-template-columns: minmax(9rem, 22rem) 1fr; gap: .25rem .8rem;
  align-items: start; font-size: .8rem; margin-top: .7rem; }
.tiles { display: flex; flex-wrap: wrap; gap: 2px; }
.tiles i { width: .85rem; height: .85rem; border-radius: .15rem; background: var(--accent); }
.readout { position: sticky; bottom: 0; background: var(--card); padding: .4rem 0;
  font-size: .8rem; min-height: 2rem; color: var(--soft); }
@media (max-width: 40rem) {
  main { padding: 1rem .7rem 3rem; }
  .heat { grid-template-columns: 1fr; }
  .chunk { font-size: .55rem; }
}
`
