/**
 * Required by a process of Node's before its program: it is killed in front of its Nth call that
 * changes files, KILL_AT_CALL, or half-way where that call writes (KILL_HALF). Their count goes
 * into the file CALLS_TO when the process ends by itself.
 */

const fs = require('node:fs')
const { syncBuiltinESMExports } = require('node:module')

const { openSync, writeSync, writeFileSync } = fs
const { KILL_AT_CALL, KILL_HALF, CALLS_TO } = process.env
const last = Number(KILL_AT_CALL)
let calls = 0

function die() {
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}

/** Half of what that call would write. */
function writeHalf(name, [to, bytes, offset, length, position]) {
  if (name === 'writeSync' && typeof bytes !== 'string') {
    const half = (length ?? bytes.byteLength) >> 1
    if (half > 0) writeSync(to, bytes, offset ?? 0, half, position)
  }
  if (name === 'writeFileSync') writeFileSync(to, String(bytes).slice(0, String(bytes).length >> 1))
}

const changes = {
  openSync: ([, flags]) => /[wa+]/.test(String(flags)) || Number(flags) > 0,
  writeSync: ([to]) => to > 2,
  writeFileSync: () => true,
  ftruncateSync: () => true,
  renameSync: () => true,
  linkSync: () => true,
  rmSync: () => true,
  unlinkSync: () => true,
}

for (const [name, counts] of Object.entries(changes)) {
  const own = fs[name]
  fs[name] = (...args) => {
    if (counts(args) && ++calls === last) {
      if (KILL_HALF !== '') writeHalf(name, args)
      die()
    }
    return own(...args)
  }
}
syncBuiltinESMExports()

process.on('exit', () => {
  const file = openSync(CALLS_TO, 'w')
  writeSync(file, String(calls))
})
