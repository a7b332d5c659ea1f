/**
 * What pages of the manual say that the command line itself does not: examples, files, what of the
 * environment is read, what else to look at.
 *
 * Invariant: every command has an example, and each example is one that the command takes; a test
 * plays them against the tree (test/command/installed/manual.test.ts).
 */

/** Rows of a page: what is typed or named, and in words what it is. */
export type Rows = readonly (readonly [term: string, words: string])[]

/** Whom it is of: names of commands, or null for all. */
interface Fact {
  readonly of: readonly string[] | null
  readonly term: string
  readonly words: string
}

/** Commands that speak with a card, which may know its peers. */
const OF_CARDS = [
  ...['persist', 'read', 'verify', 'inspect', 'status', 'counters', 'format', 'region', 'scan'],
  ...['discard', 'publish', 'withdraw', 'detach', 'check', 'monitor', 'peers', 'flash'],
] as const

export const ENVIRONMENT: readonly Fact[] = [
  {
    of: [...OF_CARDS, 'key', 'emulate'],
    term: 'PERDURE_KEY',
    words: 'the file of the private key by which sessions with a card are made',
  },
  {
    of: ['flash'],
    term: 'PERDURE_PORT',
    words: 'where the card takes firmware, if `--port` does not say it',
  },
  {
    of: [...OF_CARDS, 'key', 'emulate', 'image'],
    term: 'XDG_CONFIG_HOME',
    words:
      'the folder that holds perdure/key and perdure/development-key.pem; ~/.config by default',
  },
  {
    of: null,
    term: 'NO_COLOR',
    words: 'no colours on a terminal, if it is set and not empty',
  },
]

export const FILES: readonly Fact[] = [
  {
    of: [...OF_CARDS, 'key', 'emulate'],
    term: '~/.config/perdure/key',
    words: 'the private key, which `perdure key new` makes',
  },
  {
    of: ['image', 'emulate'],
    term: '~/.config/perdure/development-key.pem',
    words: 'a key of your own that signs images, made when it is first used',
  },
  {
    of: ['emulate'],
    term: 'IMAGE.slots',
    words: 'beside an image: the slots of firmware of a card with `--smp`',
  },
  {
    of: ['capture'],
    term: '~/.local/lib/wireshark/plugins/perdure.lua',
    words: 'the dissector, where `--install-dissector` puts it',
  },
]

/** What a command is for beyond its one line, where that is not plain from its options. */
export const MORE: Readonly<Record<string, readonly string[]>> = {
  persist: [
    'The file is cut into records of the size that the region has. Each is durable when the card ' +
      'has acknowledged it, and after a power cut wholly old or wholly new. In front of them ' +
      'stands a record with the length and the SHA-256 of the file, by which `perdure read` ' +
      'knows that it has all of it.',
  ],
  verify: [
    'Of each record that cannot be given as it was it says whether it is repaired, unsettled, ' +
      'lost, or under way.',
  ],
  emulate: ['The address by which a driver finds the card is the first line of standard output.'],
  recover: ['It is what a card does when it starts. Records that were under way become whole.'],
  peers: ['A peer is said in the words of a line of a peers file: key, name, and rights.'],
  flash: ['Without the name of a step it uploads an image, tries it, and confirms it.'],
  key: ['It overwrites nothing, and refuses a private key that group or others may read.'],
  completion: ['A package of Debian has put what it prints where the shells look for it.'],
}

const CARD = 'perdure://127.0.0.1'

/** By command: a line, and what it does. */
export const EXAMPLES: Readonly<Record<string, Rows>> = {
  demo: [['perdure demo --seed 7', 'the power goes elsewhere than it does without the option']],
  emulate: [
    [
      'perdure emulate part.nvdimm --create --region notes:1024:4096',
      'a card with a region of 1024 records of 4096 bytes',
    ],
    [
      'perdure emulate part.nvdimm --udp 127.0.0.1:0 --console',
      'one at a free port that takes orders on standard input',
    ],
  ],
  persist: [
    [`perdure persist ${CARD} notes note.txt`, 'from slot 0 on'],
    [`perdure persist ${CARD} notes note.txt --batch inOrder`, '256 records under each status'],
    [`perdure persist ${CARD} notes - --raw --slot 7`, 'what comes on standard input, from slot 7'],
  ],
  read: [
    [`perdure read ${CARD} notes --out note.txt`, 'the file whose first record is in slot 0'],
    ['perdure read part.nvdimm notes', 'of an image, to standard output'],
  ],
  verify: [[`perdure verify ${CARD}`, 'every record of every region']],
  inspect: [
    ['perdure inspect part.nvdimm', 'what an image holds; it stays as it is'],
    [`perdure inspect ${CARD} --status --region notes`, 'which blocks of a region are ready'],
  ],
  recover: [
    ['perdure recover part.nvdimm --scan', 'and checks every record'],
    ['perdure recover part.nvdimm --discard notes:7', 'and gives one up that is lost'],
  ],
  capture: [
    ['perdure capture wire.pcap', 'a line for each packet'],
    ['perdure capture --install-dissector', 'for Wireshark'],
  ],
  timeline: [
    ['perdure timeline run.trace -o page.html', 'a page for a browser, which needs no network'],
  ],
  console: [
    ['perdure console unix:/run/perdure/console status', 'how a card on this machine is'],
    ['perdure console /dev/ttyUSB0 --baud 115200', 'lines of standard input to a serial line'],
  ],
  image: [
    ['perdure image keygen signing.pem', 'and signing.pub.pem, which cards trust'],
    [
      'perdure image create --board bluefield3 --signing-key signing.pem --out next.bin',
      'an image for that card',
    ],
    ['perdure image verify next.bin --trust signing.pub.pem', 'what a card would say of it'],
  ],
  flash: [
    ['perdure flash next.bin --port unix:/run/perdure/smp', 'uploads, tries and confirms it'],
    ['perdure flash list --port /dev/rshim0/console', 'what is in the slots'],
  ],
  status: [
    [`perdure status ${CARD}`, 'of a card'],
    ['perdure status part.nvdimm', 'of an image'],
  ],
  counters: [[`perdure counters ${CARD} --json`, 'for programs']],
  format: [[`perdure format ${CARD} --dry-run`, 'what it would do']],
  region: [
    [`perdure region create ${CARD} orders --slots 1024 --capacity 4K`, 'of records'],
    [`perdure region create ${CARD} log --bytes 16M --write-persist`, 'of plain bytes'],
    [`perdure region list ${CARD}`, 'all of them'],
    [`perdure region remove ${CARD} orders --yes`, 'ends it permanently, and does not ask'],
  ],
  scan: [[`perdure scan ${CARD} orders`, 'one region; without a name, all of them']],
  discard: [[`perdure discard ${CARD} orders:7 --yes`, 'record 7 becomes blank']],
  publish: [[`perdure publish ${CARD} log 7204 --from 192.0.2.0/24`, 'to clients of that network']],
  withdraw: [[`perdure withdraw ${CARD} 7204`, 'what was published there']],
  detach: [[`perdure detach ${CARD} far`, 'a region of another card']],
  check: [[`perdure check ${CARD} --allow volatile --allow open`, 'a card on a desk']],
  monitor: [
    [`perdure monitor ${CARD}`, 'a table that renews itself'],
    [`perdure monitor ${CARD} perdure://10.0.0.2 --web 8080`, 'two cards on one page'],
    [`perdure monitor ${CARD} --told`, 'at once, when the card tells that something has changed'],
    [`perdure monitor ${CARD} --metrics`, 'once, as Prometheus reads it'],
  ],
  key: [
    ['perdure key new', 'prints the public half'],
    ['perdure key show /etc/perdure/key', 'that of another file'],
  ],
  peers: [
    ['perdure peers list perdure://KEY@10.0.0.2', 'KEY is what the card prints at its start'],
    ['perdure peers add perdure://KEY@10.0.0.2 PUBLICKEY bob read:*', 'he may read every region'],
    ['perdure peers remove perdure://KEY@10.0.0.2 bob', 'he may come no more'],
  ],
  completion: [['perdure completion fish', 'what fish reads']],
}

/** Exit codes where they are not those of every command. */
export const CODES: Readonly<Record<string, Rows>> = {
  check: [
    ['0', 'OK: the card serves, its save energy is there, and nothing is lost'],
    ['1', 'WARNING: what is durable does not outlive the power, or whoever comes may administer'],
    ['2', 'CRITICAL: it does not answer, does not serve, can promise nothing, or records are lost'],
    ['3', 'UNKNOWN: it cannot be asked'],
    ['64', 'the command line makes no sense'],
  ],
}

/** Commands beside which others are looked up, and pages of the runtime. */
export const SEE: Readonly<Record<string, readonly string[]>> = {
  persist: ['perdure-read(1)', 'perdure-verify(1)'],
  read: ['perdure-persist(1)', 'perdure-verify(1)'],
  verify: ['perdure-scan(1)', 'perdure-recover(1)'],
  recover: ['perdure-inspect(1)', 'perdure-discard(1)'],
  scan: ['perdure-verify(1)', 'perdure-discard(1)'],
  console: ['perdured(8)', 'perdure-boot(8)'],
  image: ['perdure-flash(1)', 'perdure-boot(8)'],
  flash: ['perdure-image(1)', 'perdure-boot(8)'],
  check: ['perdure-monitor(1)'],
  monitor: ['perdure-check(1)', 'perdure-counters(1)'],
  capture: ['perdure-timeline(1)'],
  timeline: ['perdure-emulate(1)', 'perdure-capture(1)'],
  key: ['perdure-peers(1)', 'perdured.conf(5)'],
  peers: ['perdure-key(1)', 'perdured.conf(5)'],
  publish: ['perdure-withdraw(1)', 'perdure-region(1)'],
  withdraw: ['perdure-publish(1)'],
  emulate: ['perdured(8)', 'perdure-inspect(1)'],
}
