/**
 * What the page of a timeline does: it moves the cursor, and tells what was so there.
 *
 * Invariants:
 * - It decides nothing of recovery: what a cut leaves, and what becomes of it, it looks up.
 * - Everything that it writes into the page it writes as text.
 * - \`window.timeline.told()\` says in numbers what the page says in words, for whoever checks it.
 */

export const PAGE_SCRIPT = `
let cursor = T.cursor
let chosen = -1
let follows = true
/** The image of the cut whose chunks are shown; -1: none. */
let image = -1

/** What each line is behind the step of the cursor: what is durable of it, what is pending. */
function linesNow() {
  const lines = new Map()
  const at = (line) => {
    if (!lines.has(line)) lines.set(line, { durable: null, pending: undefined, torn: '' })
    return lines.get(line)
  }
  for (let i = 0; i <= cursor; i++) {
    const { adds = [], settles = [], left, version } = T.steps[i]
    for (const [first, count] of adds) {
      for (let l = first; l < first + count; l++) at(l).pending = version ?? null
    }
    if (left) {
      for (const [first, survived] of left) for (let k = 0; k < survived.length / 8; k++) {
        const line = at(first + k)
        const letters = survived.slice(8 * k, 8 * k + 8)
        const isLive = !/[0t]/.test(letters)
        if (isLive) line.durable = line.pending
        line.torn = isLive || !/[1t]/.test(letters) ? '' : letters
        line.pending = undefined
      }
    } else for (const [first, count] of settles) {
      for (let l = first; l < first + count; l++) {
        const line = at(l)
        Object.assign(line, { durable: line.pending, pending: undefined, torn: '' })
      }
    }
  }
  return lines
}

/** The version that is under way at the cursor, or was last. */
function versionNow(record) {
  return record.versions.findLastIndex(({ from }) => from <= cursor)
}

function versionText(record, version) {
  const { operation, length } = record.versions[version]
  if (operation !== null) return 'operation ' + operation
  return length === 0 ? 'empty' : 'as it was'
}

/** A version as a chip: old or new, and which. */
function chipOf(record, version) {
  if (version === -1) return make('span', 'chip torn', 'torn')
  const now = versionNow(record)
  const isNew = version >= now && now > 0
  const chip = make('span', 'chip' + (isNew ? ' new' : ''), isNew ? 'new' : 'old')
  chip.title = versionText(record, version)
  return chip
}

function outcomeChip(record, outcome) {
  if (outcome === -1) return make('span', 'chip lost', 'lost')
  if (outcome === -2) return make('span', 'chip lost', 'neither')
  return chipOf(record, outcome)
}

/** The cut that is told of at the cursor: of its step, or of the last one that changed anything. */
function cutNow() {
  for (let i = cursor; i >= 0; i--) if (T.steps[i].cut !== undefined) return T.cuts[T.steps[i].cut]
  return null
}

const plural = (count, word) => count.toLocaleString('en') + ' ' + word + (count === 1 ? '' : 's')

/** Pending lines by what they are of. */
function groupsOf(pending) {
  const groups = new Map()
  const add = (name, of) => {
    if (!groups.has(name)) groups.set(name, { lines: 0, of: new Set() })
    groups.get(name).lines += 1
    groups.get(name).of.add(of)
  }
  for (const line of pending) {
    const area = T.areas.find(({ lines: [first, count] }) => line >= first && line < first + count)
    if (area) {
      add(area.name.startsWith('lane') ? 'lanes' : area.name, area.name)
      continue
    }
    const record = T.records.find(({ places, lines }) =>
      places.some((first) => line >= first && line < first + lines))
    const copy = record?.places.findIndex((first) => line >= first && line < first + record.lines)
    if (record) add('copy ' + LETTERS[copy], record.name)
    else add('other lines', 'other')
  }
  return groups
}

function showEvent(pending) {
  const step = T.steps[cursor]
  $('where').textContent = 'event ' + step.n + ' · ' + timeOf(step.t)
  $('at').textContent = step.text
  $('pending').textContent = pending.length === 0
    ? 'Nothing is pending: all that was stored is durable.'
    : plural(pending.length, 'line') + (pending.length === 1 ? ' is' : ' are') +
      ' pending, stored and not yet durable:'
  $('lines').replaceChildren(...[...groupsOf(pending)].map(([name, { lines, of }]) => {
    const many = of.size > 1 ? ' (' + of.size + ')' : ''
    const which = name === [...of][0] ? '' : ' of ' + [...of][0] +
      (of.size > 1 ? ' to ' + [...of].at(-1).split(' ').at(-1) : '')
    return make('li', '', (name === 'lanes' ? [...of][0] + (of.size > 1 ? ' to ' +
      [...of].at(-1).split(' ')[1] : '') : name + which) + many + ': ' + plural(lines, 'line'))
  }))
}

const PHASES = {
  A: 'A: the first copy is being written', B: 'B: the first copy is whole, the others follow',
  clear: 'clear: nothing in flight', another: 'holds the intent of another record',
  none: 'no lane yet', held: 'held', torn: 'torn',
}

function placeOf(title, ...chips) {
  const box = make('div', 'place')
  const head = make('div', 'pair')
  const right = make('span')
  right.append(...chips.flatMap((chip) => [' ', chip]))
  head.append(make('b', '', title), right)
  box.append(head)
  return box
}

const CHUNKS = {
  '': 'durable, old', new: 'durable, new', pend: 'pending', same: 'stored again as it was',
  kept: 'pending, survives', gone: 'pending, is lost', torn: 'torn, or an earlier store',
}
const HEADER = ['check code', 'check code', 'magic, region', 'record, length', 'sequence', 'client',
  'operation', 'version']
const LANE = ['phase word', 'region, link', 'record, level', 'sequence', 'client', 'operation',
  'check code', 'check code']

/** What a chunk is: behind a cut, or pending, and then in the image that is chosen. */
function chunkOf(line, state, i, isNew) {
  if (state.pending === undefined) {
    const letter = state.torn === '' ? '.' : state.torn[i]
    return letter === '1' ? 'new' : letter === 't' ? 'torn' : isNew ? 'new' : ''
  }
  const cut = cutNow()
  if (!cut?.places) return 'pend'
  const place = cut.places.indexOf(8 * line + i)
  if (place < 0) return 'same'
  const kept = cut.shown[image]?.kept
  return kept === undefined ? 'pend' : { 1: 'kept', 0: 'gone', t: 'torn' }[kept[place]]
}

/** Lines chunk by chunk, with a name for each; where they are many, a tile is a line. */
function tilesOf(lines, isNew, nameOf) {
  const tiles = make('div', 'tiles')
  const isFine = lines.length <= 16
  lines.forEach(([line, state], l) => {
    const kinds = Array.from({ length: 8 }, (_, i) => chunkOf(line, state, i, isNew(state)))
    const isOne = kinds.every((kind) => kind === kinds[0])
    const box = make('span', 'line')
    for (const [i, kind] of (isFine ? kinds : [isOne ? kinds[0] :
      state.pending === undefined ? 'torn' : 'pend']).entries()) {
      const tile = make('i', kind)
      tile.title = nameOf(l, isFine ? i : -1) + ': ' + CHUNKS[kind]
      box.append(tile)
    }
    tiles.append(box)
  })
  return tiles
}

const BLANK = { durable: null, pending: undefined, torn: '' }

function showLane(record, lines) {
  const change = record.lanes.findLast(([step]) => step <= cursor)
  const [, lane, live, durable] = change ?? [0, -1, 'none', 'none']
  const box = placeOf(lane < 0 ? 'Lane' : 'Lane ' + lane, make('span',
    'chip' + (live === 'B' ? ' new' : ''), live))
  box.append(make('div', 'soft', PHASES[live] + (live === durable ? '' :
    '; durable is: ' + durable)))
  const area = T.areas.find(({ name }) => name === 'lane ' + lane)
  if (area) {
    const [line] = area.lines
    box.append(tilesOf([[line, lines.get(line) ?? BLANK]],
      () => durable === 'A' || durable === 'B', (_, i) => 'byte ' + 8 * i + ', ' + LANE[i]))
  }
  return box
}

function showCopy(record, copy, lines) {
  const now = versionNow(record)
  const states = Array.from({ length: record.lines }, (_, i) => record.places[copy] + i)
    .map((line) => [line, lines.get(line) ?? BLANK])
  const pending = states.filter(([, line]) => line.pending !== undefined).length
  const torn = states.some(([, line]) => line.torn !== '')
  const durable = states[0][1].durable ?? 0
  const chips = [torn ? make('span', 'chip torn', 'torn') : chipOf(record, Math.max(0, durable))]
  if (pending > 0) chips.push(make('span', 'chip torn', plural(pending, 'line') + ' pending'))
  const box = placeOf('Copy ' + LETTERS[copy], ...chips)
  box.append(tilesOf(states, ({ durable }) => durable !== null && durable >= now && now > 0,
    (line, i) => line > 0 || i < 0
      ? (line === 0 ? 'header' : 'data, byte ' + ((line - 1) * 64 + Math.max(0, i) * 8))
      : 'header, byte ' + 8 * i + ', ' + HEADER[i]))
  return box
}

/** The header and the first data of a version, sixteen bytes a row. */
function dumpOf(head) {
  const rows = head.match(/.{1,32}/g) ?? []
  return rows.map((row, i) => {
    const text = (row.match(/../g) ?? []).map((pair) => {
      const code = parseInt(pair, 16)
      return code > 32 && code < 127 ? String.fromCharCode(code) : '·'
    }).join('')
    return (16 * i).toString(16).padStart(2, '0') + '  ' + row.match(/.{1,8}/g).join(' ') + '  ' +
      text
  }).join('\\n')
}

function showBytes(record) {
  const now = versionNow(record)
  const box = make('details')
  box.open = $('bytes')?.open ?? false
  box.id = 'bytes'
  box.append(make('summary', '', 'bytes of the header and the first data'))
  for (const version of now > 0 ? [now, now - 1] : [0]) {
    const { head, length } = record.versions[version]
    const name = (version === now && now > 0 ? 'new, ' : 'old, ') + versionText(record, version)
    box.append(make('div', 'soft', name + (length === null ? '' : ', ' + length + ' B')),
      make('pre', '', head === '' ? 'not in the trace' : dumpOf(head)))
  }
  return box
}

function showRecord(lines) {
  const row = T.rows[chosen]
  const record = row?.record === undefined ? null : T.records[row.record]
  if (!record) {
    $('record').textContent = 'Choose a record'
    $('places').replaceChildren()
    return
  }
  const now = versionNow(record)
  $('record').textContent = record.name + ' at the cursor' +
    (now > 0 ? ': ' + versionText(record, now) + ' over ' + versionText(record, now - 1) : '')
  $('places').replaceChildren(showLane(record, lines),
    ...record.places.map((_, copy) => showCopy(record, copy, lines)), showBytes(record))
}

function countsOf(cut, image) {
  const counts = { new: 0, old: 0, lost: 0, neither: 0 }
  image.results.forEach((result, i) => {
    const { outcome } = T.results[result]
    const now = versionNow(T.records[cut.records[i]])
    const name = outcome === -1 ? 'lost' : outcome === -2 ? 'neither' :
      outcome >= now && now > 0 ? 'new' : 'old'
    counts[name] += 1
  })
  return counts
}

function rowOf(tag, cells) {
  const row = make('tr')
  for (const cell of cells) {
    const box = make(tag)
    box.append(cell)
    row.append(box)
  }
  return row
}

function imageRow(cut, image, place, at) {
  const cells = [image.name]
  if (place >= 0) {
    const record = T.records[cut.records[place]]
    const result = T.results[image.results[place]]
    const copies = make('span', 'copies')
    result.copies.forEach((version, i) => copies.append(i > 0 ? ' ' : '', chipOf(record, version)))
    cells.push(result.lane, copies, result.row === '' ? 'no lane names it' :
      result.row + ': ' + result.action, outcomeChip(record, result.outcome))
  }
  const counts = countsOf(cut, image)
  cells.push(Object.entries(counts).filter(([, count]) => count > 0)
    .map(([name, count]) => count + ' ' + name).join(', ') || '-')
  const row = rowOf('td', cells)
  row.addEventListener('click', () => chooseImage(at))
  return row
}

function showCut() {
  const cut = cutNow()
  const isOff = cut === null
  $('images').hidden = $('verdict').hidden = isOff
  if (isOff) {
    $('left').textContent = 'What a cut leaves here is not in this page (--steps).'
    return
  }
  const record = T.rows[chosen]?.record
  const place = record === undefined ? -1 : cut.records.indexOf(record)
  $('left').textContent = cut.chunks === 0
    ? 'A cut changes nothing: what is durable is what loads see.'
    : plural(cut.chunks, 'chunk') + ' of eight bytes may survive or not, each on its own: ' +
      cut.images + ' images. ' + (cut.all ? 'All of them:' : 'Shown are ' + cut.shown.length + ':')
  const many = cut.records.length
  $('verdict').className = 'verdict ' + (cut.broken > 0 ? 'bad' : 'good')
  $('verdict').textContent = cut.broken > 0
    ? '✗ VIOLATION: ' + cut.broken + ' results break the promise'
    : many === 0 ? '✓ No record is under way.'
    : '✓ ' + (many === 1 ? 'The record' : 'Each of ' + many + ' records') + ' is wholly old or ' +
      'wholly new, in ' + (cut.all ? 'every image.' : 'every image shown.')
  const letters = place < 0 ? '' : LETTERS.slice(0, T.records[record].places.length).join(' ')
  const head = place < 0 ? [] : ['lane', letters, 'case of the table, and recovery', 'is then']
  $('images').replaceChildren(rowOf('th', ['of what is pending', ...head, 'all records']),
    ...cut.shown.map((image, at) => imageRow(cut, image, place, at)))
  showImage()
}

/** Which image is chosen. */
function showImage() {
  const rows = [...$('images').querySelectorAll('tr')].slice(1)
  for (const [i, row] of rows.entries()) row.setAttribute('aria-selected', String(i === image))
}

/** Chooses an image: what survives in it is shown; the same again: none. */
function chooseImage(at) {
  image = at === image ? -1 : at
  showRecord(linesNow())
  showImage()
}

/** The next image, one on or one back, and around. */
function nextImage(by) {
  const count = cutNow()?.shown.length ?? 0
  if (count > 0) chooseImage((image + by + (image < 0 && by < 0 ? 1 : 0) + count) % count)
}

function show() {
  const step = T.steps[cursor]
  if (follows && step.record !== undefined) {
    chosen = T.rows.findIndex(({ record }) => record === step.record)
  }
  const lines = linesNow()
  const pending = [...lines].filter(([, line]) => line.pending !== undefined)
    .map(([line]) => line).sort((a, b) => a - b)
  showEvent(pending)
  showRecord(lines)
  showCut()
  for (const id of ['cursor', 'grip']) {
    $(id).setAttribute('transform', 'translate(' + xOf(cursor) + ' 0)')
  }
  $('chosen').setAttribute('y', chosen < 0 ? -99 : yOf(chosen))
  for (const [i, label] of [...$('labels').children].entries()) {
    if (T.rows[i].record !== undefined) label.setAttribute('aria-pressed', String(i === chosen))
  }
  const chart = $('chart')
  chart.setAttribute('aria-valuemin', '0')
  chart.setAttribute('aria-valuemax', String(T.steps.length - 1))
  chart.setAttribute('aria-valuenow', String(cursor))
  chart.setAttribute('aria-valuetext', step.text)
}

/** Brings the cursor, and the row that is chosen, into what is seen of the chart. */
function reveal() {
  const scene = $('scene')
  const left = $('labels').offsetWidth
  const x = left + xOf(cursor)
  if (x < scene.scrollLeft + left + 40) scene.scrollLeft = x - left - 120
  if (x > scene.scrollLeft + scene.clientWidth - 40) {
    scene.scrollLeft = x - scene.clientWidth + 160
  }
  if (chosen < 0) return
  const y = TOP + yOf(chosen)
  if (y < scene.scrollTop + TOP) scene.scrollTop = y - TOP
  if (y + ROW > scene.scrollTop + scene.clientHeight - 16) {
    scene.scrollTop = y + ROW - scene.clientHeight + 32
  }
}

function go(step) {
  cursor = Math.max(0, Math.min(T.steps.length - 1, step))
  image = cutNow()?.left ? 0 : -1
  show()
  reveal()
}

function choose(row) {
  chosen = row
  follows = false
  show()
  reveal()
}

/** The next row of a record, up or down. */
function chooseNext(by) {
  for (let row = chosen + by; row >= 0 && row < T.rows.length; row += by) {
    if (T.rows[row].record !== undefined) return choose(row)
  }
}

function goTo(by, isIt) {
  for (let i = cursor + by; i >= 0 && i < T.steps.length; i += by) {
    if (isIt(T.steps[i])) return go(i)
  }
}

const isFence = ({ kind }) => kind === 'fence'
const KEYS = {
  ArrowLeft: () => go(cursor - 1), ArrowRight: () => go(cursor + 1),
  ArrowUp: () => chooseNext(-1), ArrowDown: () => chooseNext(1),
  PageUp: () => goTo(-1, isFence), PageDown: () => goTo(1, isFence),
  Home: () => go(0), End: () => go(T.steps.length - 1),
  f: () => goTo(1, isFence), F: () => goTo(-1, isFence),
  i: () => nextImage(1), I: () => nextImage(-1),
  c: () => goToCut(), '+': () => zoom(1.5), '-': () => zoom(1 / 1.5),
  Escape: () => { follows = true; go(cursor) },
}

/** To what was right before the power went: where the cursor tells what the cut could leave. */
function goToCut() {
  const at = T.steps.findIndex(({ kind }) => kind === 'cut')
  if (at > 0) go(cursor === at - 1 ? at : at - 1)
}

function zoom(by) {
  wide = Math.max(1, Math.min(40, wide * by))
  drawChart()
  show()
  reveal()
}

/** As wide as there is room, but no narrower than can be hit. */
function fit(least) {
  const room = $('scene').clientWidth - $('labels').offsetWidth - 2 * PAD - 2
  wide = Math.max(least, Math.min(28, room / T.steps.length))
}

function stepAt(event) {
  const { left } = $('chart').getBoundingClientRect()
  return Math.floor((event.clientX - left - PAD) / wide)
}

function begin() {
  $('title').textContent = T.title + ' · ' + plural(T.steps.length, 'event') + ', ' +
    plural(T.records.length, 'record')
  $('notes').textContent = T.notes.join(' ')
  $('violation').textContent = '✗ ' + T.violation
  $('violation').hidden = T.violation === undefined
  drawLabels()
  drawLegend()
  fit(4)
  drawChart()
  const chart = $('chart')
  $('axis').addEventListener('pointerdown', (event) => {
    $('axis').setPointerCapture(event.pointerId)
    go(stepAt(event))
  })
  $('axis').addEventListener('pointermove', (event) => {
    if (event.buttons & 1) go(stepAt(event))
  })
  chart.addEventListener('pointerdown', (event) => {
    chart.setPointerCapture(event.pointerId)
    const row = Math.floor((event.clientY - chart.getBoundingClientRect().top) / ROW)
    go(stepAt(event))
    if (T.rows[row]?.record !== undefined) choose(row)
  })
  chart.addEventListener('pointermove', (event) => {
    if (event.buttons & 1) go(stepAt(event))
  })
  const press = (id, key) => $(id).addEventListener('click', KEYS[key])
  press('first', 'Home')
  press('back', 'ArrowLeft')
  press('forth', 'ArrowRight')
  press('fence', 'f')
  press('cut', 'c')
  press('out', '-')
  press('in', '+')
  $('cut').hidden = !T.steps.some(({ kind }) => kind === 'cut')
  document.addEventListener('keydown', (event) => {
    const act = KEYS[event.key]
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    act()
  })
  addEventListener('beforeprint', () => { wide = 900 / T.steps.length; drawChart(); show() })
  addEventListener('afterprint', () => { fit(4); drawChart(); go(cursor) })
  chosen = T.rows.findIndex(({ record }) => record !== undefined)
  go(cursor)
}

window.timeline = {
  go,
  told: () => {
    const cut = cutNow()
    const pending = [...linesNow()].filter(([, line]) => line.pending !== undefined)
    return {
      step: cursor, text: $('at').textContent, pending: pending.map(([line]) => line),
      left: $('left').textContent, verdict: $('verdict').textContent,
      images: cut === null ? [] : cut.shown.map((image) => ({
        name: image.name, counts: countsOf(cut, image) })),
      chunks: [...$('places').querySelectorAll('.tiles')].map((tiles) =>
        [...tiles.querySelectorAll('i')].map((tile) => tile.className || 'old')),
      rows: [...$('images').querySelectorAll('tr')].map((row) =>
        [...row.children].map((cell) => cell.textContent)),
    }
  },
}
begin()
`
