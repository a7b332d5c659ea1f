/**
 * What the page does in the browser: shows one crash point at a time, and names heat-map tiles.
 *
 * Invariant: it is plain script without a library, it asks for nothing over a network, and
 * everything that it writes into the page it writes as text.
 */

export const PAGE_SCRIPT = `
'use strict'
const pictures = JSON.parse(document.getElementById('pictures').textContent)
const $ = (id) => document.getElementById(id)
const make = (tag, name, text) => {
  const element = document.createElement(tag)
  if (name) element.className = name
  if (text !== undefined) element.textContent = text
  return element
}
const HEADER = ['chk', 'chk', 'reg', 'len', 'seq', 'cli', 'op', 'ver']
const LANE = ['pha', 'reg', 'rec', 'seq', 'cli', 'op', 'chk', 'chk']
const TABLE = ['chk', 'chk', 'seq', 'cli', 'new', 'low', 'bit', 'bit']
const NAMES = {
  chk: 'check code', reg: 'magic, region', len: 'record, length', seq: 'sequence',
  cli: 'client', op: 'operation', ver: 'version', pha: 'phase word', rec: 'record, level, link',
  new: 'newest operation', low: 'all known below', bit: 'operations known', dat: 'data',
}
function shortOf(block, line, i) {
  if (block.name.startsWith('lane')) return LANE[i]
  if (block.name.startsWith('operations')) return TABLE[i]
  return line === 0 ? HEADER[i] : 'dat'
}
const CHUNK = {
  '.': ['', 'durable, not touched'],
  '=': ['same', 'stored again as it was'],
  '1': ['kept', 'pending, and survived'],
  '0': ['gone', 'pending, and did not survive'],
}
let picture = null
let point = 0
let image = 0

function chip(state) {
  const name = state === 'clear' ? '' : state
  return make('span', 'chip ' + name, state)
}

function drawBlock(block, state, after, next) {
  const box = make('div', 'block')
  const head = make('header', '', block.name)
  if (state) head.append(chip(state))
  box.append(head)
  const grid = make('div', 'chunks')
  block.lines.forEach((line, l) => {
    for (let i = 0; i < line.length; i++) {
      const letter = line[i] === '*' ? next() : line[i]
      const short = shortOf(block, l, i)
      const cell = make('div', 'chunk ' + CHUNK[letter][0], short)
      cell.title = block.name + ', byte ' + (64 * l + 8 * i) + ': ' + NAMES[short] + ': ' +
        CHUNK[letter][1]
      grid.append(cell)
    }
  })
  box.append(grid)
  if (after) {
    const below = make('div', 'after', 'behind the start: ')
    below.append(chip(after))
    box.append(below)
  }
  return box
}

function fillList(box, title, lines) {
  box.replaceChildren(make('h3', '', title), ...lines.map((line) => make('p', '', line)))
}

function draw() {
  const at = picture.points[point]
  const shown = at.images[image]
  $('known').textContent = at.known.join('; ')
  $('slider').max = String(at.images.length - 1)
  $('slider').value = String(image)
  $('which').textContent = 'image ' + (image + 1) + ' of ' + at.images.length +
    ' shown; a cut here may leave ' + at.subsets
  let star = 0
  const next = () => shown.kept[star++]
  $('blocks').replaceChildren(...at.blocks.map((block, i) =>
    drawBlock(block, shown.is[i], shown.after[i], next)))
  const kept = [...shown.kept].filter((bit) => bit === '1').length
  const survived = shown.kept.length === 0 ? 'Nothing was pending.'
    : kept + ' of ' + shown.kept.length + ' pending chunks survived the cut.'
  fillList($('survived'), 'What the cut left', [survived])
  fillList($('decided'), 'What recovery decided', shown.decided)
  fillList($('reads'), 'What a READ then brings', shown.reads)
  document.querySelectorAll('#points button').forEach((button, i) =>
    button.setAttribute('aria-pressed', String(i === point)))
}

function choosePoint(i) {
  point = i
  const { images } = picture.points[i]
  const torn = images.findIndex(({ is }) => is.includes('torn'))
  image = Math.max(0, torn)
  draw()
}

function choosePicture() {
  picture = pictures.find(({ kind, level }) =>
    kind === $('kind').value && level === $('level').value)
  $('points').replaceChildren(...picture.points.map(({ name }, i) => {
    const button = make('button', '', (i + 1) + ' · ' + name)
    button.type = 'button'
    button.addEventListener('click', () => choosePoint(i))
    return button
  }))
  const first = picture.points.findIndex(({ images }) =>
    images.some(({ is }) => is.slice(1).includes('torn')))
  choosePoint(Math.max(0, first))
}

function move(by) {
  const { images } = picture.points[point]
  image = (image + by + images.length) % images.length
  draw()
}

function begin() {
  for (const id of ['kind', 'level']) {
    for (const name of new Set(pictures.map((one) => one[id]))) {
      $(id).append(make('option', '', name))
    }
    $(id).addEventListener('change', choosePicture)
  }
  if (pictures.some(({ level }) => level === '2of2')) $('level').value = '2of2'
  $('slider').addEventListener('input', () => { image = Number($('slider').value); draw() })
  $('back').addEventListener('click', () => move(-1))
  $('forth').addEventListener('click', () => move(1))
  choosePicture()
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
