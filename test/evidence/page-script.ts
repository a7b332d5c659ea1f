/**
 * What the page does in the browser: shows one timeline at a time, and names heat-map tiles.
 *
 * Invariant: it is plain script without a library, it asks for nothing over a network, and
 * everything that it writes into the page it writes as text; a timeline has a page of its own,
 * inside this one.
 */

/** Stands in the page of a timeline where its data go. */
export const HERE = '"the timeline"'

export const PAGE_SCRIPT: string = `
'use strict'
const { pictures, page } = JSON.parse(document.getElementById('pictures').textContent)
const $ = (id) => document.getElementById(id)

function choose(i) {
  $('picture').value = String(i)
  const data = JSON.stringify(pictures[i].timeline).replaceAll('<', '\\\\u003c')
  $('timeline').srcdoc = page.replace('${HERE}', () => data)
}

function begin() {
  for (const [i, { kind, level, replay }] of pictures.entries()) {
    const name = (replay ? 'violation: ' : '') + kind + ', ' + level
    $('picture').append(new Option(name, String(i)))
  }
  $('picture').addEventListener('change', () => choose(Number($('picture').value)))
  for (const button of document.querySelectorAll('[data-picture]')) {
    button.addEventListener('click', () => {
      choose(Number(button.dataset.picture))
      $('look').scrollIntoView()
    })
  }
  const first = pictures.findIndex(({ level, replay }) => replay || level === '2of2')
  choose(Math.max(0, first))
}
if (pictures.length > 0) begin()
for (const tiles of document.querySelectorAll('.tiles')) {
  const tell = (event) => {
    const out = tiles.closest('details').querySelector('.readout')
    if (event.target.title) out.textContent = event.target.title
  }
  tiles.addEventListener('mouseover', tell)
  tiles.addEventListener('click', tell)
}
`
