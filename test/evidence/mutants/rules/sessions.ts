/** Cards with peers: sessions, rights, tags, and peers that change (R1-S13 to R1-S16). */

import { attacked, directed, type Mutant, simulate } from '../mutant.ts'

const ACCESS = 'firmware/manage/access.ts'
const CONTROL = 'firmware/manage/control.ts'
const PART_STATE = 'firmware/manage/part-state.ts'
const SESSIONS = 'firmware/session/sessions.ts'
const PEERS = 'firmware/session/peers.ts'
const CHANGES = 'firmware/manage/peers.ts'
const SEALED = 'firmware/session/sealed.ts'
const COOKIES = 'firmware/session/cookies.ts'
const PUBLISH = 'firmware/connect/publish.ts'
const GRANTS = 'firmware/session/grants.ts'
const LOCATE = 'firmware/engine/locate.ts'
const INITIATE = 'firmware/connect/initiate.ts'
const RELAY = 'firmware/placement/relay.ts'

const CALLS: readonly Mutant[] = [
  {
    id: 'strangers-served',
    rule: 'R1-S13: a card with peers takes no call in the clear',
    file: ACCESS,
    find: 'return FOR_STRANGERS.includes(attribute) ? PASS : NO_SESSION',
    replace: 'return FOR_PEERS.includes(attribute) ? PASS : NO_SESSION',
    killer: directed('strangers and a card with peers'),
  },
  {
    id: 'strangers-told',
    rule: 'R1-S13: strangers are told that the card serves, and nothing more',
    file: PART_STATE,
    find: '  if (toStranger) return\n',
    replace: '',
    killer: directed('strangers and a card with peers'),
  },
  {
    id: 'open-unsaid',
    rule: 'R1-S13: a card says whether it is open',
    file: PART_STATE,
    find: 'hasPeers(state) ? mad.ACCESS_PEERS : mad.ACCESS_OPEN',
    replace: 'hasPeers(state) ? mad.ACCESS_OPEN : mad.ACCESS_PEERS',
    killer: attacked('calm 5'),
  },
  {
    id: 'peers-as-admins',
    rule: 'R1-S14: what is an admin’s is no peer’s',
    file: ACCESS,
    find: 'return FOR_PEERS.includes(attribute) ? PASS : FORBIDDEN',
    replace: 'return PASS',
    killer: directed('calls in a session'),
  },
  {
    id: 'sealed-twice',
    rule: 'R1-S13: a sealed call is taken once',
    file: SEALED,
    find: 'if (counter > COUNTER_MAX || wasTaken(seal, counter)) return false',
    replace: 'if (counter > COUNTER_MAX) return false',
    killer: attacked('calm 5'),
  },
  {
    id: 'session-for-ever',
    rule: 'R1-S13: a session ends',
    file: SESSIONS,
    find: 'session.id !== id || isOver(state, session)) return NO_SESSION',
    replace: 'session.id !== id) return NO_SESSION',
    killer: directed('calls in a session'),
  },
  {
    id: 'client-of-another',
    rule: 'D-6, R1-S14: nobody is a client of another peer',
    file: CONTROL,
    find: 'options.clientHigh !== clientTagOf(state, call.session)',
    replace: 'clientTagOf(state, call.session) === 0',
    killer: directed('calls in a session'),
  },
]

const FLOODS: readonly Mutant[] = [
  {
    id: 'cookie-of-anybody',
    rule: 'R1-S13: beyond so many handshakes in a second only who hears us comes to the curve',
    file: COOKIES,
    find: 'isCookie(bytes, at, cookie) && hasShare(sessions.cookies, source)',
    replace: 'hasShare(sessions.cookies, source)',
    killer: directed('a flood of first messages'),
  },
  {
    id: 'cookies-unasked',
    rule: 'R1-S13: handshakes are counted',
    file: COOKIES,
    find: 'cookies.unproven += 1\n',
    replace: '',
    killer: directed('a flood of first messages'),
  },
  {
    id: 'cookie-kept',
    rule: 'R1-S13: who was asked for a cookie gets in with it',
    file: CONTROL,
    find: 'if (fault !== COOKIE) keepAnswer(',
    replace: 'keepAnswer(',
    killer: directed('a flood of first messages'),
  },
]

const DATA: readonly Mutant[] = [
  {
    id: 'reader-writes',
    rule: 'R1-S14: who may read a region changes nothing in it',
    file: LOCATE,
    find:
      'if ((rights & CHANGES) !== 0 && ((party.writable >> region!.index) & 1) === 0)' +
      ' return RIGHTS',
    replace: '',
    killer: directed('rights by region'),
  },
  {
    id: 'every-region',
    rule: 'R1-S14: a key of a region that a peer has no right to names nothing',
    file: GRANTS,
    find: 'region !== null && mayRead(who, region.name)',
    replace: 'region !== null',
    killer: directed('rights by region'),
  },
  {
    id: 'tag-unchecked',
    rule: 'R1-S15: a packet without its tag is taken by nobody',
    file: 'firmware/core.ts',
    find: '  if ((flags & TAG_GOOD) !== qp.tagFlag) return NO_TAG\n',
    replace: '',
    killer: directed('packets with tags'),
  },
  {
    id: 'answer-untagged',
    rule: 'R1-S15: an answer has a tag',
    file: 'firmware/transport/acknowledge.ts',
    find: 'transmit(answers.list, end - qp.templateBytes, length, qp.tagAux)',
    replace: 'transmit(answers.list, end - qp.templateBytes, length, 0)',
    killer: attacked('calm 5'),
  },
]

/** What somebody inside the network makes use of. */
const ATTACKED: readonly Mutant[] = [
  {
    id: 'tag-of-nobody',
    rule: 'R1-S15: a tag is compared',
    file: 'boards/emulator/run/tag-places.ts',
    find: 'place.number === number && place.tags.take(packets, at, length)',
    replace: 'place.number === number',
    killer: attacked('calm 5'),
  },
  {
    id: 'tag-late',
    rule: 'R1-S15: a packet without its tag moves no PSN',
    file: 'firmware/core.ts',
    find: '  if ((flags & TAG_GOOD) !== qp.tagFlag) return NO_TAG\n',
    replace:
      '  if ((flags & TAG_GOOD) !== qp.tagFlag) {\n' +
      '    qp.expectedPsn = (packet.psn + 1) & 0xffffff\n    return NO_TAG\n  }\n',
    killer: attacked('calm 5'),
  },
  {
    id: 'tag-twice',
    rule: 'R1-S15: a counter is taken once',
    file: 'boards/software/tags.ts',
    find: 'counter > Number.MAX_SAFE_INTEGER || !this.window.mayCome(counter)',
    replace: 'counter > Number.MAX_SAFE_INTEGER',
    killer: attacked('calm 5'),
  },
  {
    id: 'keys-twice',
    rule: 'R1-S15: who comes again has other keys, though nothing of it was heard',
    file: 'firmware/manage/control.ts',
    find: 'return qp.tagKeys !== null && !(isSameCall && isSameClient)',
    replace: 'return qp.tagKeys !== null && !isSameCall && qp.used',
    killer: attacked('calm 2'),
  },
  {
    id: 'asked-again',
    rule: 'R1-S15: a call that comes again is told of the queue pair that it made',
    file: 'firmware/manage/control.ts',
    find: 'return qp.tagKeys !== null && !(isSameCall && isSameClient)',
    replace: 'return qp.tagKeys !== null',
    killer: directed('packets with tags'),
  },
  {
    id: 'number-of-another',
    rule: 'R1-S15: a number of a station is that of one client',
    file: 'firmware/manage/control.ts',
    find: '    if (qp.tagKeys !== null) return qp\n',
    replace: '',
    killer: directed('packets with tags'),
  },
  {
    id: 'lives-alike',
    rule: 'R1-S13, L6: a first message that comes again in another life makes another session',
    file: SESSIONS,
    find: '  stir(state, [nowUs | 0, Math.floor(nowUs / 2 ** 32)])\n',
    replace: '',
    killer: attacked('health 4'),
  },
]

const CHANGING: readonly Mutant[] = [
  {
    id: 'gone-in-session',
    rule: 'R1-S16: who is removed has no session any more',
    file: PEERS,
    find: 'if (places[i]?.peer === place) places[i] = null',
    replace: 'if (places[i]?.peer === place) continue',
    killer: directed('peers that come and go'),
  },
  {
    id: 'gone-connected',
    rule: 'R1-S16: who is removed has no queue pair any more',
    file: CHANGES,
    find: 'qp !== null && qp.peer === place',
    replace: 'qp !== null && qp.peer !== place',
    killer: directed('peers that come and go'),
  },
  {
    id: 'gone-known',
    rule: 'R1-S16: who is removed is nobody at the next handshake',
    file: PEERS,
    find: '  peers[place] = NOBODY\n',
    replace: '',
    killer: directed('peers that come and go'),
  },
  {
    id: 'peer-unkept',
    rule: 'R1-S16: nobody comes whom the board does not keep',
    file: PEERS,
    find: 'if (fault === PASS) putPeer(sessions, place, peer)',
    replace: 'putPeer(sessions, place, peer)',
    killer: directed('peers that come and go'),
  },
  {
    id: 'last-admin',
    rule: 'R1-S16: one admin stays',
    file: PEERS,
    find: 'others.length === 0 || (admin && !others.some((other) => other.admin))',
    replace: 'others.length === 0',
    killer: directed('peers that come and go'),
  },
  {
    id: 'peer-half-told',
    rule: 'R1-S16: a peer comes when it was told whole',
    file: CHANGES,
    find: '  if (draft.told < draft.regions) return PASS\n',
    replace: '',
    killer: directed('peers that come and go'),
  },
]

const STOCK: readonly Mutant[] = [
  {
    id: 'port-of-an-admin',
    rule: 'R1-S14: every admin may say what a port publishes',
    file: CONTROL,
    find: 'const packet = call.session === null ? call.packet : null',
    replace: 'const { packet } = call',
    killer: directed('ports of other admins'),
  },
  {
    id: 'stock-unsaid',
    rule: 'R1-S14: clients without sessions come where that is said',
    file: PUBLISH,
    find: 'return hasPeers(state) && !stock ? STOCK_UNSAID : PASS',
    replace: 'return PASS',
    killer: directed('ports for clients without sessions'),
  },
  {
    id: 'failed-takes-room',
    rule: 'R1-S14: who breaks his own connection takes no room of a port',
    file: 'firmware/connect/room.ts',
    find: '.filter(({ qp }) => qp!.state !== STATE_ERROR)',
    replace: '',
    killer: directed('ports for clients without sessions'),
  },
  {
    id: 'from-anywhere',
    rule: 'R1-S14: to a port connects who is named',
    file: 'firmware/connect/judge.ts',
    find: 'if (!isFromSources(state, packet, service.sources))',
    replace: 'if (service.sources.length > 99)',
    killer: directed('ports for clients without sessions'),
  },
  {
    id: 'any-number',
    rule: 'R1-S14: a port has as many connections as was said',
    file: 'firmware/connect/room.ts',
    find: 'if (connections.length < most) return true',
    replace: 'return true',
    killer: directed('ports for clients without sessions'),
  },
  {
    id: 'both-write',
    rule: 'R1-S14: no session writes the records that clients without sessions write',
    file: GRANTS,
    find: '(!isStock && mayWrite',
    replace: '(mayWrite',
    killer: directed('records of clients without sessions'),
  },
  {
    id: 'stays-behind-its-port',
    rule: 'R1-S14: with a port its connections end',
    file: PUBLISH,
    find: '  dismissAll(state, port)\n',
    replace: '',
    killer: directed('records of clients without sessions'),
  },
  {
    id: 'forgotten-by-crowds',
    rule: 'R1-S14: nobody has the clients of others forgotten by calling himself by many ids',
    file: 'firmware/commit/operations.ts',
    find: 'o.owners.length === 0 ? oldest : longestUnused(o, greatestOwner(o))',
    replace: 'oldest',
    killer: directed('clients of nobody'),
  },
]

const RELAYED: readonly Mutant[] = [
  {
    id: 'relayed-as-another',
    rule: 'D-6: each client of a relay has an id of its own over there',
    file: 'firmware/session/relayed.ts',
    find: '  putU32(text, WORDS.length + 4, clientLow)\n',
    replace: '',
    killer: directed('clients of a relay in a session'),
  },
  {
    id: 'relay-untagged',
    rule: 'R1-S15: what a relay sends has tags',
    file: INITIATE,
    find: 'if (active === null) secureAs(state, qp, entering!.entrance!.tagKeys)',
    replace: 'if (active === null) qp.hold = HOLD_CONNECTED',
    killer: directed('clients of a relay in a session'),
  },
  {
    id: 'relay-tags-ungranted',
    rule: 'R1-S15: a relay takes no queue pair without tags',
    file: 'firmware/connect/entering.ts',
    find: 'body[mad.CONNECT_TAGS] !== 1 || ',
    replace: '',
    killer: directed('a relay without tags'),
  },
  {
    id: 'relay-answer-unsealed',
    rule: 'R1-S13: a relay believes what the other card has sealed',
    file: 'firmware/session/visit.ts',
    find: 'if (!openDatagram(options.primitives, session, datagram, 0)) return VISIT_BROKEN',
    replace: 'openDatagram(options.primitives, session, datagram, 0)',
    killer: directed('forgers on the path of a relay'),
  },
  {
    id: 'relay-answer-elsewhere',
    rule: 'R1-S13: a relay takes answers from the address of the other card',
    file: INITIATE,
    find:
      'if (!isLive(state, connection) || !isFromPeer(state, connection.qp!, packet)) continue\n' +
      '    const event',
    replace: 'if (!isLive(state, connection)) continue\n    const event',
    killer: directed('answers to a relay from elsewhere'),
  },
]

/** What worlds whose cards relay to each other notice by themselves. */
const RELAYED_AT_LARGE: readonly Mutant[] = [
  {
    id: 'relay-acknowledges-early',
    rule: 'X-1: a relay calls durable what the other card has called so, and nothing before',
    file: RELAY,
    find: '  passenger.done = false\n',
    replace:
      '  passenger.done = true\n' +
      '  passenger.status = 0\n' +
      '  passenger.copies = packCopies(2, 0)\n' +
      '  state.relays.arrived += 1\n',
    killer: simulate('relays 1-1'),
  },
  {
    id: 'relay-unanswered-is-durable',
    rule: 'X-1: of a record that the other card has not answered nobody knows what became of it',
    file: RELAY,
    find: 'answered ? request.refusal : UNKNOWN',
    replace: 'answered ? request.refusal : 0',
    killer: simulate('relays 1-1'),
  },
  {
    id: 'relay-batch-unanswered-is-durable',
    rule: 'X-1: nor of the records of a batch',
    file: 'firmware/placement/relay-batch.ts',
    find: '      batch.linkLost = true\n',
    replace: '      noteHandedEnd(batch, index, 2, PASS)\n',
    killer: simulate('relays 1-1'),
  },
  {
    id: 'relayed-by-another-name',
    rule: 'D-6: a client has the same id over there at every start of the card that relays',
    file: INITIATE,
    find: 'own, target.clientHigh, target.clientLow)',
    replace: 'own, target.clientHigh, target.clientLow + state.incarnation)',
    killer: simulate('relays 1-1'),
  },
  {
    id: 'relay-outlives-its-line',
    rule: 'R1-S13: a card that is removed from the peers of another has no queue pair there',
    file: CHANGES,
    find: 'if (qp !== null && qp.peer === place) closePair(state, qp)',
    replace: 'if (qp !== null && qp.peer === -place) closePair(state, qp)',
    killer: simulate('relays 5-5'),
  },
]

export const SESSION_RULES: readonly Mutant[] = [
  ...[...CALLS, ...FLOODS, ...DATA, ...ATTACKED],
  ...[...CHANGING, ...STOCK, ...RELAYED, ...RELAYED_AT_LARGE],
]
