/**
 * The page of a timeline: one file, to be opened in any browser.
 *
 * Invariants:
 * - It names nothing outside itself, and forbids itself to ask for anything (its policy).
 * - What comes from a trace stands in the page as JSON without `<`, and is written by the script as
 *   text: no name of a region becomes a tag.
 */

import type { Timeline } from './data.ts'
import { PAGE_DRAWING } from './page-drawing.ts'
import { PAGE_SCRIPT } from './page-script.ts'
import { PAGE_STYLE } from './page-style.ts'

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

const BODY = `
<header>
  <h1>Pull the plug anywhere</h1>
  <span class="soft" id="title"></span>
  <span class="grow"></span>
  <span class="controls">
    <button type="button" id="first" title="to the first event">|◀</button>
    <button type="button" id="back" title="one event back">◀</button>
    <button type="button" id="forth" title="one event on">▶</button>
    <button type="button" id="fence" title="to the next fence">next fence</button>
    <button type="button" id="cut" title="to the power cut">the cut</button>
    <button type="button" id="out" title="draw it smaller">−</button>
    <button type="button" id="in" title="draw it larger">+</button>
  </span>
  <span class="soft keys"><kbd>←</kbd> <kbd>→</kbd> event · <kbd>f</kbd> fence ·
    <kbd>c</kbd> cut · <kbd>i</kbd> image · <kbd>↑</kbd> <kbd>↓</kbd> record</span>
</header>
<p id="violation" class="verdict bad" hidden></p>
<main>
  <div id="scene" class="card" tabindex="-1">
    <div class="corner soft">time →</div>
    <svg id="axis" aria-hidden="true"></svg>
    <div id="labels"></div>
    <svg id="chart" role="slider" tabindex="0" aria-label="event of the trace"></svg>
  </div>
  <div id="below">
    <section class="card" aria-label="at the cursor">
      <h2 id="where"></h2>
      <p id="at"></p>
      <p id="pending"></p>
      <ul id="lines"></ul>
      <div class="legend" id="legend"></div>
      <div id="notes" class="soft"></div>
    </section>
    <section class="card" aria-label="slots and lane">
      <h2 id="record"></h2>
      <div id="places"></div>
    </section>
    <section class="card" aria-label="a power cut here">
      <h2>If the power goes here</h2>
      <p id="left"></p>
      <div id="verdict" class="verdict"></div>
      <table id="images"></table>
    </section>
  </div>
</main>`

export function pageOf(timeline: Timeline): string {
  return pageHolding(JSON.stringify(timeline).replaceAll('<', '\\u003c'))
}

/** The page of that JSON: for whoever puts a timeline into it later, in a browser. */
export function pageHolding(data: string): string {
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="content-security-policy" content="${POLICY}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<link rel="icon" href="data:,">',
    '<title>Perdure: a timeline</title>',
    `<style>${PAGE_STYLE}</style>`,
    '</head>',
    `<body>${BODY}`,
    `<script type="application/json" id="timeline">${data}</script>`,
    `<script>'use strict'\n${PAGE_DRAWING}${PAGE_SCRIPT}</script>`,
    '</body>',
    '</html>',
    '',
  ].join('\n')
}
