import { expect, test } from 'vitest'
import { VirtualClock } from '../../../../boards/emulator/base/clock.ts'
import { Random } from '../../../../boards/emulator/base/random.ts'
import { Link, type LinkEnd, type LinkOptions } from '../../../../boards/emulator/network/link.ts'
import { openTunnel } from '../../../../boards/emulator/network/tunnel.ts'

const SEED = Number(process.env.SEED ?? 20261121)

interface Run {
  readonly clock: VirtualClock
  readonly link: Link
  /** What arrived at the other end: the number of each frame, and when. */
  readonly arrived: Record<LinkEnd, { readonly number: number; readonly timeUs: number }[]>
}

function join(options: Partial<LinkOptions> = {}): Run {
  const clock = new VirtualClock()
  const link = new Link({ clock, seed: SEED, ...options })
  const arrived: Run['arrived'] = { a: [], b: [] }
  for (const end of ['a', 'b'] as const) {
    link.attach(end, (frame) => {
      arrived[end].push({ number: frame[0]! * 256 + frame[1]!, timeUs: clock.nowUs })
    })
  }
  return { clock, link, arrived }
}

/** Sends `count` numbered frames, one each microsecond. */
function send({ clock, link }: Run, from: LinkEnd, count: number): void {
  for (let i = 0; i < count; i++) {
    clock.schedule(i, () => link.send(from, Uint8Array.of(i >> 8, i, 7, 7, 7, 7, 7, 7)))
  }
}

const numbers = (list: readonly { readonly number: number }[]): number[] =>
  list.map(({ number }) => number)
const ascending = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

test('a good link carries everything, in order, after its latency', () => {
  const run = join({ latencyUs: 5 })
  send(run, 'a', 100)
  run.clock.runUntilIdle()
  expect(numbers(run.arrived.b)).toEqual(ascending(100))
  expect(run.arrived.b.every(({ number, timeUs }) => timeUs === number + 5)).toBe(true)
  expect(run.arrived.a).toEqual([])
  expect(run.link.counts('a')).toMatchObject({ sent: 100, sentBytes: 800, delivered: 100 })
})

test('loss, duplication, reordering and corruption strike as often as they are told to', () => {
  const faults = { loss: 0.1, duplication: 0.2, reordering: 0.3, corruption: 0.05 }
  const run = join({ faults })
  send(run, 'a', 10_000)
  run.clock.runUntilIdle()
  const counts = run.link.counts('a')
  const carried = counts.sent - counts.lost
  const near = (found: number, share: number): void => {
    expect(Math.abs(found / counts.sent - share), `SEED=${SEED}`).toBeLessThan(0.02)
  }
  near(counts.lost, 0.1)
  near(counts.duplicated, 0.9 * 0.2)
  near(counts.reordered, 0.9 * 0.3)
  near(counts.corrupted, 0.9 * 0.05)
  expect(run.arrived.b).toHaveLength(carried + counts.duplicated)
  expect(numbers(run.arrived.b)).not.toEqual(numbers(run.arrived.b).sort((x, y) => x - y))
})

test('the same seed does the same to the same frames, another seed something else', () => {
  const faults = { loss: 0.2, duplication: 0.2, reordering: 0.2, corruption: 0.2, jitterUs: 9 }
  const outcome = (seed: number): string => {
    const run = join({ faults, seed })
    send(run, 'a', 300)
    send(run, 'b', 300)
    run.clock.runUntilIdle()
    return JSON.stringify([run.arrived, run.link.counts('a'), run.link.counts('b')])
  }
  expect(outcome(SEED)).toBe(outcome(SEED))
  expect(outcome(SEED)).not.toBe(outcome(SEED + 1))
})

test('what one end sends does not change what becomes of the other end', () => {
  const arrivals = (others: number): unknown => {
    const run = join({ faults: { loss: 0.3 } })
    send(run, 'b', others)
    send(run, 'a', 200)
    run.clock.runUntilIdle()
    return run.arrived.b
  }
  expect(arrivals(0)).toEqual(arrivals(77))
})

test('jitter alone never changes the order', () => {
  const run = join({ faults: { jitterUs: 40 } })
  send(run, 'a', 500)
  run.clock.runUntilIdle()
  expect(numbers(run.arrived.b)).toEqual(ascending(500))
  expect(new Set(run.arrived.b.map(({ number, timeUs }) => timeUs - number)).size).toBeGreaterThan(
    5,
  )
})

test('a script decides about the frames it names and leaves the others to chance', () => {
  const run = join({
    script: (_, from, number) => {
      if (from !== 'a') return undefined
      if (number === 1) return { drop: true }
      if (number === 2) return { copies: 2 }
      if (number === 3) return { delayUs: 100 }
      if (number === 4) return { flipBit: 15 }
      return undefined
    },
  })
  send(run, 'a', 6)
  run.clock.runUntilIdle()
  expect(numbers(run.arrived.b)).toEqual([0, 2, 2, 2, 5, 5, 3])
})

test('faults can differ by direction and be changed on the way', () => {
  const run = join({ faultsFrom: { a: { loss: 1 } } })
  send(run, 'a', 10)
  send(run, 'b', 10)
  run.clock.runUntilIdle()
  expect([run.arrived.b.length, run.arrived.a.length]).toEqual([0, 10])
  run.link.setFaults('a', {})
  run.link.send('a', Uint8Array.of(0, 0))
  run.clock.runUntilIdle()
  expect(run.arrived.b).toHaveLength(1)
})

test('the tap sees every frame as it was sent, and the sender may use its buffer again', () => {
  const seen: string[] = []
  const run = join({
    faults: { corruption: 1 },
    tap: (frame, timeUs, from) => seen.push(`${from}${timeUs} ${frame.join()}`),
  })
  const buffer = Uint8Array.of(1, 2, 3)
  let arrived = ''
  run.link.attach('b', (frame) => {
    arrived = frame.join()
  })
  run.link.send('a', buffer)
  buffer.fill(0)
  run.clock.runUntilIdle()
  expect(seen).toEqual(['a0 1,2,3'])
  expect(arrived).not.toBe('1,2,3')
  expect(arrived).not.toBe('0,0,0')
})

// Time

test('events run in the order of their times, and of their scheduling', () => {
  const clock = new VirtualClock()
  const random = new Random(SEED)
  const ran: { readonly atUs: number; readonly order: number }[] = []
  for (let order = 0; order < 2000; order++) {
    const atUs = random.below(50)
    clock.schedule(atUs, () => ran.push({ atUs, order }))
  }
  expect(clock.runUntilIdle()).toBe(2000)
  const sorted = [...ran].sort((x, y) => x.atUs - y.atUs || x.order - y.order)
  expect(ran).toEqual(sorted)
})

test('an event in the past runs now, a cancelled one never', () => {
  const clock = new VirtualClock()
  const ran: string[] = []
  clock.schedule(10, () => {
    clock.schedule(3, () => ran.push(`late at ${clock.nowUs}`))
    clock.cancel(cancelled)
  })
  const cancelled = clock.schedule(20, () => ran.push('cancelled'))
  clock.runUntilIdle()
  expect(ran).toEqual(['late at 10'])
  expect(clock.step()).toBe(false)
})

test('time can be run up to a moment, and that is then the time', () => {
  const clock = new VirtualClock()
  const ran: number[] = []
  for (const atUs of [1, 5, 9]) clock.schedule(atUs, () => ran.push(atUs))
  expect(clock.runUntil(5)).toBe(2)
  expect([ran, clock.nowUs, clock.eventCount]).toEqual([[1, 5], 5, 1])
})

test('events that breed events forever are found out', () => {
  const clock = new VirtualClock()
  const again = (): void => {
    clock.schedule(clock.nowUs + 1, again)
  }
  again()
  expect(() => clock.runUntilIdle(1000)).toThrow('no rest')
})

test('a released clock runs one event in a turn, so that promises settle in between', async () => {
  const clock = new VirtualClock()
  const ran: string[] = []
  const done = new Promise<void>((resolve) => {
    clock.schedule(1, () => {
      ran.push('first')
      void Promise.resolve().then(() => ran.push('promise'))
    })
    clock.schedule(1, () => {
      ran.push('second')
      resolve()
    })
  })
  clock.start()
  await done
  clock.stop()
  expect(ran).toEqual(['first', 'promise', 'second'])
})

// The tunnel

test('the tunnel answers each address where it was last heard', async () => {
  const heard: Record<string, Uint8Array[]> = { card: [], x: [], y: [] }
  const open = (name: string): ReturnType<typeof openTunnel> =>
    openTunnel({ receive: (frame) => heard[name]!.push(Uint8Array.from(frame)) })
  const [card, x, y] = await Promise.all([open('card'), open('x'), open('y')])
  // A host's end sends to the card only once it knows it: the card speaks first here.
  const frame = (to: number, from: number): Uint8Array => {
    const bytes = new Uint8Array(60)
    bytes[5] = to
    bytes[11] = from
    return bytes
  }
  const until = async (isDone: () => boolean): Promise<void> => {
    while (!isDone()) await new Promise((wake) => setTimeout(wake, 2))
  }
  try {
    x.connect('127.0.0.1', card.port)
    y.connect('127.0.0.1', card.port)
    x.send(frame(9, 1))
    y.send(frame(9, 2))
    await until(() => heard.card!.length === 2)
    card.send(frame(1, 9))
    card.send(frame(2, 9))
    card.send(frame(0xff, 9).fill(0xff, 0, 6))
    await until(() => heard.x!.length === 2 && heard.y!.length === 2)
    expect([heard.x![0]![5], heard.y![0]![5]]).toEqual([1, 2])
  } finally {
    await Promise.all([card.close(), x.close(), y.close()])
  }
})
