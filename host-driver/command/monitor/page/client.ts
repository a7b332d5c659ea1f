/**
 * The page of a monitor in a browser: what its server tells it (web-told.ts), shown.
 *
 * Invariants:
 * - Text of a card goes into text nodes only, so nothing in a name is markup.
 * - A page that has lost its server says so, and goes on when it is back: the server tells
 *   everything again then. A page that is paused shows what it has shown.
 */

import type { WebEvent, WebHello, WebLook } from '../web-told.ts'
import { CardView } from './card-view.ts'
import { clockText, make } from './make.ts'

const EVENTS_MAX = 100

const byId = (id: string): HTMLElement => document.getElementById(id)!

const cards = new Map<string, CardView>()
let isPaused = false
/** What came while the page was paused, in order. */
let held: (() => void)[] = []

function say(text: string): void {
  byId('link').textContent = text
}

/** Does it now, or when the page goes on. */
function show(work: () => void): void {
  if (isPaused) held = [...held, work].slice(-1000)
  else work()
}

function takeHello({ looks, points, events, intervalMs }: WebHello): void {
  for (const view of cards.values()) view.remove()
  cards.clear()
  byId('happened').replaceChildren()
  for (const look of looks) viewOf(look.target).begin(points[look.target] ?? [])
  for (const look of looks) viewOf(look.target).show(look)
  for (const event of events) takeEvent(event)
  say(`every ${intervalMs / 1000} s`)
}

function takeLook(look: WebLook): void {
  const view = viewOf(look.target)
  view.add(look.point)
  view.show(look)
  document.title = titleOf()
}

/** The gravest state is in the title, for who has the page in a tab behind others. */
function titleOf(): string {
  const states = [...cards.values()].map(({ state }) => state)
  const gravest = ['AWAY', 'CRITICAL', 'UNKNOWN', 'WARNING'].find((one) => {
    return states.some((state) => state === one)
  })
  return `${gravest ?? 'OK'}: perdure monitor`
}

function viewOf(target: string): CardView {
  let view = cards.get(target)
  if (view === undefined) {
    view = new CardView(target)
    cards.set(target, view)
    byId('cards').append(view.element)
  }
  return view
}

function takeEvent({ target, atMs, gravity, text }: WebEvent): void {
  byId('quiet').hidden = true
  const at = new Date(atMs)
  const time = make('time', clockText(at))
  time.setAttribute('datetime', at.toISOString())
  const word = make('strong', gravity)
  word.className = gravity
  const item = make('li')
  item.append(time, ' ', word, ` ${target}: ${text}`)
  const list = byId('happened')
  list.prepend(item)
  while (list.childElementCount > EVENTS_MAX) list.lastElementChild!.remove()
}

function pause(): void {
  isPaused = !isPaused
  const button = byId('pause')
  button.setAttribute('aria-pressed', String(isPaused))
  button.textContent = isPaused ? 'Go on' : 'Pause'
  if (isPaused) return
  for (const work of held.splice(0)) work()
}

/** The value of a message of the server. */
function told<T>(take: (value: T) => void): (message: MessageEvent<string>) => void {
  return ({ data }) => show(() => take(JSON.parse(data) as T))
}

// By keyboard, too, it can be scrolled.
byId('happened').tabIndex = 0
byId('pause').addEventListener('click', pause)
const source = new EventSource('events')
source.addEventListener('hello', told(takeHello))
source.addEventListener('look', told(takeLook))
source.addEventListener('happened', told(takeEvent))
source.addEventListener('error', () => say('the monitor does not answer; trying again …'))
const dark = matchMedia('(prefers-color-scheme: dark)')
dark.addEventListener('change', () => {
  for (const view of cards.values()) view.redraw()
})
