/**
 * How the page of a timeline looks: light and dark, at a desk and on paper.
 *
 * Invariant: whatever a colour says is said by a shape, a pattern or a word as well.
 */

/** The colours of every page that shows what a card did. */
export const PALETTE = `
:root {
  color-scheme: light dark;
  --paper: #f7f6f3; --card: #ffffff; --ink: #1d2430; --soft: #5d6778; --line: #dfe1e6;
  --old: #8d96a5; --new: #1f5fbf; --new-soft: #dce7fa; --pend: #a35a00; --pend-soft: #fdf0d2;
  --good: #1f7a4d; --good-soft: #dff1e6; --bad: #b3261e; --bad-soft: #fbe1df; --cursor: #b3261e;
  --band: #eef0f4;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171c; --card: #1c2027; --ink: #e7e9ee; --soft: #a3acbb; --line: #333a46;
    --old: #7d8798; --new: #8fb4ff; --new-soft: #22304f; --pend: #f1c263; --pend-soft: #3f3115;
    --good: #6fd3a0; --good-soft: #17382a; --bad: #ff9a92; --bad-soft: #45201e;
    --cursor: #ff9a92; --band: #232932;
  }
}
@media print {
  :root { --paper: #fff; --card: #fff; --ink: #000; --soft: #333; --line: #999; --old: #666;
    --new: #123f86; --new-soft: #e4ecfa; --pend: #7a4300; --pend-soft: #fff4dc; --good: #0d5a34;
    --good-soft: #eef8f1; --bad: #8f1a14; --bad-soft: #fdeceb; --cursor: #8f1a14;
    --band: #f2f2f2; color-scheme: light; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
`

export const PAGE_STYLE: string = `${PALETTE}
* { box-sizing: border-box; }
html, body { height: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); display: flex;
  flex-direction: column;
  font: 14px/1.4 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
header { display: flex; align-items: center; gap: .6rem 1.2rem; flex-wrap: wrap;
  padding: .55rem 1rem .45rem; }
h1 { font-size: 1.15rem; margin: 0; letter-spacing: -.01em; }
h2 { font-size: .78rem; margin: 0 0 .35rem; color: var(--soft); font-weight: 600; }
.soft { color: var(--soft); }
.grow { flex: 1; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
button, select { font: inherit; font-size: .85rem; color: var(--ink); background: var(--card);
  border: 1px solid var(--line); border-radius: .35rem; padding: .18rem .55rem; cursor: pointer; }
button:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--new); outline-offset: 1px; }
kbd { font: .78rem ui-monospace, Menlo, Consolas, monospace; border: 1px solid var(--line);
  border-radius: .25rem; padding: 0 .25rem; background: var(--band); }
main { flex: 1; min-height: 0; display: grid; grid-template-rows: minmax(10rem, 1fr) auto;
  gap: .7rem; padding: 0 1rem .8rem; }
#scene { position: relative; overflow: auto; display: grid; grid-template-columns: auto 1fr;
  grid-template-rows: auto auto; align-content: start; min-height: 0; }
#labels { position: sticky; left: 0; z-index: 2; background: var(--card);
  border-right: 1px solid var(--line); }
.corner { position: sticky; left: 0; top: 0; z-index: 4; background: var(--card); height: 26px;
  border-right: 1px solid var(--line); border-bottom: 1px solid var(--line); font-size: .72rem;
  padding: .3rem .6rem; }
#axis { position: sticky; top: 0; z-index: 3; background: var(--card); }
#axis { border-bottom: 1px solid var(--line); box-sizing: content-box; height: 25px; }
#labels button { display: block; width: 100%; text-align: left; border: 0; border-radius: 0;
  background: none; padding: 0 .6rem; font-size: .74rem; white-space: nowrap; overflow: hidden; }
#labels button[aria-pressed=true] { background: var(--new-soft); font-weight: 700; }
#labels button.group { color: var(--soft); cursor: default; }
svg { display: block; cursor: crosshair; }
svg text { font: 10px system-ui, sans-serif; fill: var(--soft); }
svg .band { fill: var(--band); }
svg .chosen { fill: var(--new-soft); }
svg .none { stroke: var(--old); stroke-width: 1; stroke-dasharray: 1 3; }
svg .some, svg .whole { fill: var(--new); }
svg .some { opacity: .55; }
svg .fence { stroke: var(--soft); stroke-width: 1; }
svg text.fence { stroke: none; fill: var(--ink); font-weight: 700; }
svg .cut { stroke: var(--bad); stroke-width: 2; fill: none; }
svg text.cut { stroke: none; fill: var(--bad); font-weight: 700; }
svg .dark { fill: var(--bad); opacity: .12; }
svg .mark { stroke: var(--ink); stroke-width: 1.1; fill: none; }
svg .mark.solid { fill: var(--ink); }
svg .mark.durable { fill: var(--good); stroke: var(--good); }
svg .mark.refused { stroke: var(--bad); stroke-width: 1.6; }
svg .mark.copy { fill: var(--pend); stroke: none; }
svg .cursor { stroke: var(--cursor); stroke-width: 1.5; }
svg .grip { fill: var(--cursor); }
#below { display: grid; grid-template-columns: minmax(17rem, 1fr) minmax(19rem, 1.15fr)
  minmax(24rem, 1.7fr); gap: .7rem; max-height: 25.5rem; min-height: 0; }
#below > section { padding: .65rem .8rem; overflow: auto; }
#at { font-size: 1rem; font-weight: 650; margin: 0 0 .15rem; }
p { margin: .1rem 0 .45rem; }
ul { margin: .1rem 0 .4rem; padding-left: 1.1rem; }
.pair { display: flex; gap: .6rem; align-items: baseline; justify-content: space-between; }
.chip { display: inline-block; font-size: .75rem; font-weight: 650; border-radius: .3rem;
  padding: 0 .4rem; border: 1px solid var(--old); color: var(--ink); white-space: nowrap; }
.chip.new { background: var(--new-soft); border: 1px solid var(--new); color: var(--new); }
.chip.torn { background: var(--pend-soft); border: 1px dashed var(--pend); color: var(--pend); }
.chip.lost { background: var(--bad-soft); border: 2px solid var(--bad); color: var(--bad); }
.place { border-top: 1px solid var(--line); padding: .38rem 0 .3rem; }
.place:first-of-type { border-top: 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 3px 5px; margin-top: .25rem; }
.tiles .line { display: inline-flex; gap: 1px; }
.tiles i { width: 11px; height: 11px; border: 1px solid var(--old); border-radius: 2px; }
.tiles i.new { background: var(--new); border-color: var(--new); }
.tiles i.pend, .tiles i.same, .tiles i.kept, .tiles i.gone { border-color: var(--pend); }
.tiles i.pend {
  background: repeating-linear-gradient(135deg, var(--pend) 0 2px, var(--pend-soft) 2px 4px); }
.tiles i.same { background: radial-gradient(var(--pend) 1.5px, var(--pend-soft) 2px); }
.tiles i.kept { background: var(--pend); box-shadow: inset 0 0 0 1px var(--card); }
.tiles i.gone { border-style: dashed; }
.tiles i.torn { border: 1px dashed var(--bad);
  background: linear-gradient(135deg, var(--bad) 50%, transparent 50%); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .8rem; font-size: .74rem;
  color: var(--soft); align-items: center; }
.legend span { display: inline-flex; gap: .3rem; align-items: center; }
.legend svg { cursor: default; }
.legend .tiles { margin: 0; }
table { border-collapse: collapse; width: 100%; font-size: .82rem; }
th, td { text-align: left; padding: .22rem .5rem .22rem 0; vertical-align: top; }
th { font-size: .72rem; color: var(--soft); font-weight: 600; }
td { border-top: 1px solid var(--line); cursor: pointer; }
tr[aria-selected=true] td { background: var(--pend-soft); }
td .chip { margin-right: .15rem; }
td .copies { white-space: nowrap; }
pre { font: .7rem/1.35 ui-monospace, "SF Mono", Menlo, Consolas, monospace; margin: .2rem 0 0;
  overflow-x: auto; }
summary { cursor: pointer; font-size: .78rem; color: var(--soft); }
.verdict { border-radius: .35rem; padding: .25rem .55rem; margin: 0 0 .45rem; font-weight: 600; }
#violation { margin: 0 1rem .6rem; }
.verdict.good { background: var(--good-soft); color: var(--good); }
.verdict.bad { background: var(--bad-soft); color: var(--bad); }
@media (max-width: 60rem) {
  html, body { height: auto; }
  #scene { max-height: 60vh; }
  #below { grid-template-columns: 1fr; max-height: none; }
}
@media print {
  @page { size: A4 landscape; margin: 10mm; }
  html, body { height: auto; }
  body { display: block; font-size: 11px; }
  main { display: block; padding: 0; }
  .controls, .keys { display: none; }
  #scene, #below, #below > section { overflow: visible; max-height: none; }
  #below { margin-top: 4mm; break-inside: avoid; }
}
`
