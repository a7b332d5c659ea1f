/** What strangers learn, guess and do (R1-S). */

import { directed, type Mutant } from '../mutant.ts'

const CONTROL = 'firmware/manage/control.ts'
const PUBLISH = 'firmware/connect/publish.ts'
const TABLE = 'firmware/connect/table.ts'
const RANDOM = 'firmware/board/random.ts'
const NUMBER = 'firmware/transport/queue-pair-number.ts'

const TOLD: readonly Mutant[] = [
  {
    id: 'keys-to-anybody',
    rule: 'R1-S1: keys are told to a connection only',
    file: 'firmware/manage/access.ts',
    find: '(hasPeers(state) ? session !== null : isConnected(state, packet))',
    replace: '(hasPeers(state) ? session !== null : packet !== null)',
    killer: directed('keys and strangers'),
  },
  {
    id: 'keys-to-who-forges',
    rule: 'R1-S1: who has the address of IP of a client alone is told no keys',
    file: TABLE,
    find: 'qp.state === STATE_OPEN && isFromPlace(state, qp, packet)) return true',
    replace: 'qp.state === STATE_OPEN && isFromPeer(state, qp, packet)) return true',
    killer: directed('keys and strangers'),
  },
  {
    id: 'connection-told-elsewhere',
    rule: 'R1-S5: a connection is told again only where it was made',
    file: CONTROL,
    find: 'if (isHostPair(state, qp) || !isFromPlace(state, qp, packet)) continue',
    replace: 'if (isHostPair(state, qp)) continue',
    killer: directed('connections and strangers'),
  },
  {
    id: 'place-without-station',
    rule: 'R1-S5: a place is an address of IP and one of Ethernet',
    file: TABLE,
    find: 'return isFromPeer(state, qp, packet) && isFromStation(qp, packet, state.bytes)',
    replace: 'return isFromPeer(state, qp, packet)',
    killer: directed('connections and strangers'),
  },
  {
    id: 'ended-from-elsewhere',
    rule: 'R1-S5: a connection ends only where it was made',
    file: CONTROL,
    find: '  if (call.session === null && !isFromPeer(state, qp, call.packet)) return PASS\n',
    replace: '',
    killer: directed('connections and strangers'),
  },
  {
    id: 'port-of-anybody',
    rule: 'R1-S4: a port is left to who has published it',
    file: PUBLISH,
    find: 'return service.owner === publisherOf(state.bytes, packet)',
    replace: "return service.owner !== ''",
    killer: directed('ports and strangers'),
  },
]

const DRAWN: readonly Mutant[] = [
  {
    id: 'word-kept',
    rule: 'R1-S2: a word of the generator is erased when it is given',
    file: RANDOM,
    find: '  words[at] = 0\n',
    replace: '',
    killer: directed('the generator'),
  },
  {
    id: 'key-kept',
    rule: 'R1-S2: the key of the generator goes with each refill',
    file: RANDOM,
    find: 'runAlone(list, KEYSTREAM, RANDOM_AT, RANDOM_AT, RANDOM_BYTES)',
    replace: 'runAlone(list, KEYSTREAM, RANDOM_AT, 4 * FIRST_WORD, RANDOM_BYTES - 4 * KEY_WORDS)',
    killer: directed('the generator'),
  },
  {
    id: 'number-not-drawn',
    rule: 'R1-S2: of the number of a queue pair fifteen bits are drawn',
    file: NUMBER,
    find: 'const drawn = random32(state) % DRAWN',
    replace: 'const drawn = random32(state) % 2',
    killer: directed('the generator'),
  },
  {
    id: 'place-not-drawn',
    rule: 'R1-S2: which of the free places is taken is drawn',
    file: NUMBER,
    find: 'state.queuePairs.next = random32(state) & (QUEUE_PAIRS - 1)',
    replace: 'state.queuePairs.next = 0 * random32(state)',
    killer: directed('the generator'),
  },
]

export const STRANGER_RULES: readonly Mutant[] = [...TOLD, ...DRAWN]
