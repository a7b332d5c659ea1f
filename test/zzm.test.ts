import { test } from 'vitest'
import { ThroughResponder } from './support/ack-model-through.ts'
import { requestName } from './support/ack-model-client.ts'
test('x', () => { let t = Date.now(); const r = new ThroughResponder(); console.log('ctor', Date.now() - t)
 const R = [0,1].map((i) => requestName((r.plan.firstPsn + i) & 0xffffff, i + 1))
 t = Date.now()
 let a = r.start
 const go = (s: any, what: string) => { console.log(what, JSON.stringify(s), 'durable', r.durable(s.to), Date.now() - t); t = Date.now(); a = s.to }
 go(r.take(a, [R[0]!]), 'R1'); go(r.take(a, [R[1]!]), 'R2')
 for (let i = 0; i < 24; i++) { const c = r.choices(a).filter((x) => x.fair); if (c.length === 0) { console.log('quiet'); break } go(c[i % c.length]!.step, c[i % c.length]!.label) }
})
