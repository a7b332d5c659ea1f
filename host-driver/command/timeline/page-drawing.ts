/**
 * What the page of a timeline draws: the chart, a row for each queue pair, batch and record.
 *
 * Invariant: plain script without a library; every mark has a shape of its own, and a name that
 * shows when a pointer rests on it.
 */

export const PAGE_DRAWING = `
const T = JSON.parse(document.getElementById('timeline').textContent)
const $ = (id) => document.getElementById(id)
const TOP = 26
const PAD = 8
const ROW = T.rows.length > 20 ? 14 : T.rows.length > 8 ? 18 : 26
const LETTERS = ['A', 'B', 'C', 'D']
let wide = 4

const make = (tag, name, text) => {
  const element = document.createElement(tag)
  if (name) element.className = name
  if (text !== undefined) element.textContent = text
  return element
}
const draw = (tag, fields, title) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(fields)) element.setAttribute(name, value)
  if (title) element.append(Object.assign(
    document.createElementNS('http://www.w3.org/2000/svg', 'title'), { textContent: title }))
  return element
}
const xOf = (step) => PAD + (step + .5) * wide
const yOf = (row) => row * ROW

const WORDS = {
  arrived: 'the request is whole at the card', received: 'acknowledged as received',
  durable: 'acknowledged as durable', refused: 'refused',
  lane: 'intent into the lane, phase A', phase: 'phase B into the lane', copy: 'stored into copy ',
}

/** The shape of a mark, its middle at x, in a row of that height with its top at y. */
function shapeOf(kind, x, y, high, copy, copies) {
  const m = y + high / 2
  const r = Math.min(5, high / 2 - 1.5)
  const points = (...pairs) => pairs.map(([a, b]) => (x + a) + ',' + (m + b)).join(' ')
  if (kind === 'arrived') {
    return draw('polygon', { class: 'mark', points: points([-r, -r], [r, -r], [0, r]) })
  }
  if (kind === 'received') return draw('circle', { class: 'mark', cx: x, cy: m, r: r - .5 })
  if (kind === 'durable') {
    return draw('polygon', { class: 'mark durable',
      points: points([0, -r - 1], [r + 1, 0], [0, r + 1], [-r - 1, 0]) })
  }
  if (kind === 'refused') {
    return draw('path', { class: 'mark refused',
      d: 'M' + (x - r) + ' ' + (m - r) + 'l' + 2 * r + ' ' + 2 * r + 'm0 ' + -2 * r + 'l' +
        -2 * r + ' ' + 2 * r })
  }
  if (kind === 'copy') {
    const part = (high - 3) / copies
    return draw('rect', { class: 'mark copy', x: x - Math.max(2, wide / 2 - .5),
      y: y + 1.5 + copy * part, width: Math.max(4, wide - 1), height: part - .5 })
  }
  const bar = 'M' + x + ' ' + (y + 1.5) + 'v' + (high - 3)
  const two = 'M' + (x - 1.2) + ' ' + (y + 1.5) + 'v' + (high - 3) +
    'm2.4 0v' + -(high - 3)
  return draw('path', { class: 'mark', d: kind === 'phase' ? two : bar })
}

function drawRow(row, at, into) {
  const y = yOf(at)
  const last = T.steps.length - 1
  if (at % 2 === 1) {
    into.append(draw('rect', { class: 'band', x: 0, y, width: xOf(last) + PAD, height: ROW }))
  }
  const record = row.record === undefined ? null : T.records[row.record]
  if (record) {
    into.append(draw('line', { class: 'none', x1: xOf(0), x2: xOf(last), y1: y + ROW / 2,
      y2: y + ROW / 2 }))
    record.copies.forEach(([step, version, copies], i) => {
      if (copies === 0) return
      const end = i + 1 < record.copies.length ? record.copies[i + 1][0] : last
      const isWhole = copies === record.places.length
      const high = ROW * (isWhole ? .6 : .28)
      const bar = draw('rect', { class: isWhole ? 'whole' : 'some', x: xOf(step),
        y: y + (ROW - high) / 2, width: Math.max(0, xOf(end) - xOf(step)), height: high },
        copies + ' of ' + record.places.length + ' copies hold the new record durably')
      bar.style.opacity = isWhole ? .35 : .3
      into.append(bar)
    })
  }
  for (const [step, kind, copy] of row.marks) {
    const mark = shapeOf(kind, xOf(step), y, ROW, copy ?? 0, record ? record.places.length : 1)
    const words = WORDS[kind] + (kind === 'copy' ? LETTERS[copy] : '')
    mark.append(draw('title', {}))
    mark.lastChild.textContent = row.label + ': ' + words
    into.append(mark)
  }
}

/** Fences, bursts, and what the power does, over all rows. */
function drawTimes(into) {
  const end = yOf(T.rows.length)
  const axis = draw('g', {})
  let dark = -1
  let free = 0
  T.steps.forEach((step, i) => {
    const x = xOf(i)
    if (step.kind === 'fence' && step.fence !== undefined) {
      into.append(draw('line', { class: 'fence', x1: x, x2: x, y1: 0, y2: end }))
      axis.append(labelOf('F' + step.fence, x, 'fence', 'middle'))
      free = x + 12
    }
    const isNear = T.steps.slice(i, i + 1 + Math.ceil(62 / wide)).some(
      ({ kind, fence }) => kind === 'cut' || (kind === 'fence' && fence !== undefined))
    if (step.kind === 'burst' && x > free + 4 && !isNear) {
      axis.append(labelOf(timeOf(step.t), x, '', 'start'))
      free = x + 60
    }
    if (step.kind === 'cut') {
      dark = i
      const zigzag = Array.from({ length: Math.ceil(end / 8) }, (_, k) =>
        (k % 2 === 0 ? 'l4 ' : 'l-4 ') + 8).join('')
      into.append(draw('path', { class: 'cut', d: 'M' + (x - 2) + ' 0' + zigzag }))
      axis.append(labelOf('power cut', x + 8, 'cut', 'start'))
    }
    if (step.kind === 'power' && dark >= 0 && step.text.includes('starts')) {
      into.append(draw('rect', { class: 'dark', x: xOf(dark), y: 0, width: x - xOf(dark),
        height: end }))
      dark = -1
    }
  })
  return axis
}

function labelOf(text, x, name, anchor) {
  const label = draw('text', { x, y: 10, 'text-anchor': anchor, ...(name && { class: name }) })
  label.textContent = text
  return label
}

function timeOf(us) {
  return us >= 1e4 ? (us / 1000).toFixed(2) + ' ms' : us.toFixed(0) + ' µs'
}

/** Draws all of it again: at the begin, and at another width. */
function drawChart() {
  const chart = $('chart')
  const width = Math.ceil(xOf(T.steps.length - 1) + PAD)
  const height = yOf(T.rows.length) + 4
  chart.setAttribute('width', width)
  chart.setAttribute('height', height)
  const chosen = draw('rect', { class: 'chosen', id: 'chosen', x: 0, width, height: ROW })
  const rows = draw('g', {})
  T.rows.forEach((row, i) => drawRow(row, i, rows))
  const times = draw('g', {})
  const axis = $('axis')
  axis.setAttribute('width', width)
  axis.setAttribute('height', TOP)
  const grip = draw('polygon', { class: 'grip', id: 'grip', points: '-6,14 6,14 0,24' })
  axis.replaceChildren(drawTimes(times), grip)
  const cursor = draw('g', { id: 'cursor' })
  cursor.append(draw('line', { class: 'cursor', x1: 0, x2: 0, y1: 0, y2: height }))
  chart.replaceChildren(rows, times, cursor)
  rows.prepend(chosen)
}

function drawLabels() {
  const labels = T.rows.map((row, i) => {
    const button = make('button', row.record === undefined ? 'group' : '', row.label)
    button.type = 'button'
    button.tabIndex = -1
    button.style.height = button.style.lineHeight = ROW + 'px'
    button.style.fontSize = Math.min(12, ROW - 3) + 'px'
    if (row.record !== undefined) button.addEventListener('click', () => choose(i))
    return button
  })
  $('labels').replaceChildren(...labels)
}

/** What the marks mean, drawn as they are drawn in the chart. */
function drawLegend() {
  const keys = [['arrived', 'arrived'], ['received', 'received'], ['lane', 'intent, phase A'],
    ['copy', 'copy stored'], ['phase', 'phase B'], ['durable', 'acknowledged: durable']]
  const marks = keys.map(([kind, text]) => {
    const box = draw('svg', { width: 16, height: 14, 'aria-hidden': true })
    const before = wide
    wide = 7
    box.append(shapeOf(kind, 8, 0, 14, 0, kind === 'copy' ? 2 : 1))
    wide = before
    const key = make('span')
    key.append(box, make('span', '', text))
    return key
  })
  const tiles = [['', 'durable, old'], ['new', 'durable, new'], ['pend', 'pending'],
    ['same', 'stored as it was'], ['kept', 'survives'], ['gone', 'is lost'],
    ['torn', 'torn']].map(([name, text]) => {
    const key = make('span')
    const tile = make('span', 'tiles')
    tile.append(make('i', name))
    key.append(tile, make('span', '', text))
    return key
  })
  $('legend').replaceChildren(...marks, ...tiles)
}
`
