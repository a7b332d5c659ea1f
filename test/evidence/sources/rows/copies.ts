/** Rows of two or more copies in one write (source 1). */

import type { Row } from '../row.ts'

const ADMIT = 'firmware/engine/admit.ts'
const BOOT = 'firmware/manage/boot.ts'
const CASES = 'firmware/commit/cases.ts'
const COMMIT = 'firmware/commit/commit.ts'
const COPIES_FILE = 'firmware/medium/copies.ts'
const DRIVER_TEST = 'test/driver/records/driver.test.ts'
const DUAL_WRITE = 'host-driver/records/dual-write.ts'
const DUAL_WRITE_TEST = 'test/driver/records/dual-write.test.ts'
const EXAMINE = 'firmware/commit/examine.ts'
const JOBS = 'host-driver/way/jobs.ts'
const LOCATE = 'firmware/engine/locate.ts'
const PERSIST = 'firmware/wire/persist.ts'
const PERSIST_TEST = 'test/firmware/respond/persist.test.ts'
const RECOVERY_TEST = 'test/firmware/commit/recovery.test.ts'
const REGION = 'host-driver/records/region.ts'
const REPAIR = 'firmware/commit/repair.ts'
const REPAIR_ALONE_TEST = 'test/firmware/commit/repair-alone.test.ts'
const STORAGE = 'firmware/engine/storage.ts'
const UNIFY = 'firmware/commit/unify.ts'

export const COPIES: readonly Row[] = [
  {
    id: 'P1-1',
    broken: 'a region of fixed length takes any length',
    file: STORAGE,
    find: 'if ((region.flags & FIXED_LENGTH) !== 0 && ask.length !== region.capacity) {',
    replace: 'if ((region.flags & FIXED_LENGTH) !== 0 && ask.length > region.capacity) {',
    test: PERSIST_TEST,
    title: 'P1-1, D-1: a region of fixed length refuses another length, media untouched',
  },
  {
    id: 'P1-2',
    broken: 'the check code leaves the data out',
    file: COMMIT,
    find:
      'checkCode(list, item.imageAt + CHECKED_AT, item.imageAt, end - CHECKED_AT, ' +
      'item.region.keyAt)',
    replace:
      'checkCode(list, item.imageAt + CHECKED_AT, item.imageAt, SLOT_HEADER_BYTES - ' +
      'CHECKED_AT, item.region.keyAt)',
    test: PERSIST_TEST,
    title: 'P1-2, D-3: the code alone proves a copy: over place, length, sequence and data',
  },
  {
    id: 'P1-3',
    broken: 'a further copy is written without the right to it',
    file: LOCATE,
    find:
      'const fault = accessOf(state, party, extension.rkey, WRITE_PERSIST)\n    if (fault ' +
      '!== PASS) return fault\n    if (located.region !== region ||',
    replace:
      'accessOf(state, party, extension.rkey, WRITE_PERSIST)\n    if (located.region === ' +
      'null ||',
    test: PERSIST_TEST,
    title: 'P1-3: the key of another region or domain is no permission for the second copy',
  },
  {
    id: 'P1-4',
    broken: 'the client spoils the second copy',
    file: REGION,
    find: 'payload: repeated(bytes, carried ? this.copies : 1)',
    replace:
      'payload: repeated(bytes, carried ? this.copies : 1).map((b, i) => (carried && i === ' +
      'bytes.length ? b ^ 1 : b))',
    test: DRIVER_TEST,
    title: 'P1-4, P1-5, P1-6: copies are identical, and in one request',
  },
  {
    id: 'P1-5',
    broken: 'a request carries one copy more than it says',
    file: JOBS,
    find: 'furtherCopies: carried ? copies - 1 : 0',
    replace: 'furtherCopies: 0',
    test: DRIVER_TEST,
    title: 'P1-4, P1-5, P1-6: copies are identical, and in one request',
  },
  {
    id: 'P1-6',
    broken: 'the addresses of further copies are taken for data',
    file: PERSIST,
    find: 'length += (copies & FURTHER_COPIES) * ADDRESS_EXTENSION_BYTES',
    replace: 'length += 0',
    test: PERSIST_TEST,
    title: 'P1-6, P1-30, D-8: all copies in one request',
  },
  {
    id: 'P1-7',
    broken: 'the image of one copy is cut short',
    file: COMMIT,
    find: 'copyClean(list, item.imageAt, to, imageBytes(item.length), i + 1)',
    replace:
      'copyClean(list, item.imageAt, to, c === 0 ? imageBytes(item.length) : LINE_BYTES, i ' +
      '+ 1)',
    test: PERSIST_TEST,
    title: 'P1-5, P1-7, P1-8: one request carries one copy, and the card makes all of them',
  },
  {
    id: 'P1-8',
    broken: 'the card leaves the last copy out',
    file: COMMIT,
    find: 'if (item.fault !== PASS || c >= item.region.copies) continue',
    replace: 'if (item.fault !== PASS || c >= Math.max(1, item.region.copies - 1)) continue',
    test: PERSIST_TEST,
    title: 'P1-5, P1-7, P1-8: one request carries one copy, and the card makes all of them',
  },
  {
    id: 'P1-9',
    broken: 'copy B is written before A',
    file: COMMIT,
    find: 'const to = slotAddress(item.region, c, item.slot)',
    replace: 'const to = slotAddress(item.region, c < 2 ? 1 - c : c, item.slot)',
    test: PERSIST_TEST,
    title: 'P1-9, X-1, D-4: the acknowledgement of each level stands behind its fence',
  },
  {
    id: 'P1-10',
    broken: 'no fence stands between A and B',
    file: COMMIT,
    find: 'fence(list)\n  if (c > 0) commit.acknowledge(c + 1)',
    replace: 'if (c > 0) fence(list)\n  if (c > 0) commit.acknowledge(c + 1)',
    test: PERSIST_TEST,
    title: 'P1-9, P1-10: copy B is stored only behind the fence of copy A',
  },
  {
    id: 'P1-11',
    broken: 'a record whose first copy was refused goes forward',
    file: REPAIR,
    find: 'const forward = item.failedStage > STAGE_FIRST_COPY',
    replace: 'const forward = item.failedStage >= STAGE_FIRST_COPY',
    test: REPAIR_ALONE_TEST,
    title: 'P1-11: one of a full group is refused: it is told so, and all others are durable',
  },
  {
    id: 'P1-12',
    broken: 'the next write of a record joins the same group',
    file: ADMIT,
    find: 'commit.count === commit.usableLanes || groupHolds(group, commit, region!, slot)',
    replace: 'commit.count === commit.usableLanes',
    test: PERSIST_TEST,
    title: 'P1-12: the next write of a record waits until the last is durable in every copy',
  },
  {
    id: 'P1-13',
    broken: 'a record that is torn in A is lost, however it is torn',
    file: CASES,
    find: "line('A torn', PHASE_A, [0, 1, __, __, __], 'useB', 2)",
    replace: "line('A torn', PHASE_A, [0, 1, __, __, __], 'lost', 2)",
    test: RECOVERY_TEST,
    title: 'P1-13, P1-15, P1-22: case 2, during A',
  },
  {
    id: 'P1-14',
    broken: 'case 1 is reported as lost',
    file: CASES,
    find: "line('before A', PHASE_A, [1, 1, 1, __, __], 'none', 1)",
    replace: "line('before A', PHASE_A, [1, 1, 1, __, __], 'lost', 1)",
    test: RECOVERY_TEST,
    title: 'P1-14, P1-19, P1-20: case 1, before A: equal and old, nothing is done',
  },
  {
    id: 'P1-15',
    broken: 'case 2 keeps the torn A',
    file: CASES,
    find: "line('A torn', PHASE_A, [0, 1, __, __, __], 'useB', 2)",
    replace: "line('A torn', PHASE_A, [0, 1, __, __, __], 'useA', 2)",
    test: RECOVERY_TEST,
    title: 'P1-13, P1-15, P1-22: case 2, during A',
  },
  {
    id: 'P1-16',
    broken: 'case 3 takes B',
    file: CASES,
    find: "line('between', PHASE_B, [1, 1, 0, __, __], 'useA', 3)",
    replace: "line('between', PHASE_B, [1, 1, 0, __, __], 'useB', 3)",
    test: RECOVERY_TEST,
    title: 'P1-16, P1-21: case 3, between: both are valid and A wins',
  },
  {
    id: 'P1-17',
    broken: 'case 4 is lost',
    file: CASES,
    find: "line('B torn', PHASE_B, [1, 0, __, __, __], 'useA', 4)",
    replace: "line('B torn', PHASE_B, [1, 0, __, __, __], 'lost', 4)",
    test: RECOVERY_TEST,
    title: 'P1-13, P1-17, P1-21: case 4, during B',
  },
  {
    id: 'P1-18',
    broken: 'case 5 is reported as lost',
    file: CASES,
    find: "line('after B', PHASE_B, [1, 1, 1, __, __], 'none', 5)",
    replace: "line('after B', PHASE_B, [1, 1, 1, __, __], 'lost', 5)",
    test: RECOVERY_TEST,
    title: 'P1-18, P1-20: case 5, after B: equal and new, nothing is done',
  },
  {
    id: 'P1-19',
    broken: 'copies of different length are taken for the same',
    file: EXAMINE,
    find: 'if (one.valid && one.header.length !== other.header.length) return false',
    replace: 'if (one.valid && one.header.length !== other.header.length) return true',
    test: RECOVERY_TEST,
    title: 'P1-19: a difference in length alone is a difference',
  },
  {
    id: 'P1-20',
    broken: 'equal copies are written over',
    file: UNIFY,
    find: 'if (!copiesSame(list, examination, region, slot, into.kept, c)) stale |= 1 << c',
    replace: 'stale |= 1 << c',
    test: RECOVERY_TEST,
    title: 'P1-14, P1-19, P1-20: case 1, before A: equal and old, nothing is done',
  },
  {
    id: 'P1-21',
    broken: 'where A and B are whole and differ, B wins',
    file: CASES,
    find: "line('between', PHASE_B, [1, 1, 0, __, __], 'useA', 3)",
    replace: "line('between', PHASE_B, [1, 1, 0, __, __], 'useB', 3)",
    test: RECOVERY_TEST,
    title: 'P1-16, P1-21: case 3, between: both are valid and A wins',
  },
  {
    id: 'P1-22',
    broken: 'where only B is valid, the record is lost',
    file: CASES,
    find: "line('A torn', PHASE_A, [0, 1, __, __, __], 'useB', 2)",
    replace: "line('A torn', PHASE_A, [0, 1, __, __, __], 'lost', 2)",
    test: RECOVERY_TEST,
    title: 'P1-13, P1-15, P1-22: case 2, during A',
  },
  {
    id: 'P1-23',
    broken: 'a scan leaves the copies different',
    file: CASES,
    find: "line('only B valid', PHASE_NONE, [0, 1, __, __, __], 'useB', 2)",
    replace: "line('only B valid', PHASE_NONE, [0, 1, __, __, __], 'none', 2)",
    test: RECOVERY_TEST,
    title: 'P1-19, P1-23: a scan without lanes decides by the check codes alone',
  },
  {
    id: 'P1-24',
    broken: 'without a valid copy A goes over B',
    file: CASES,
    find: "line('both torn in B', PHASE_B, [0, 0, 0, __, __], 'lost', 0)",
    replace: "line('both torn in B', PHASE_B, [0, 0, 0, __, __], 'useA', 0)",
    test: RECOVERY_TEST,
    title: 'P1-31, P1-24: none is valid: nothing is overwritten',
  },
  {
    id: 'P1-25',
    broken: 'equal is taken for valid',
    file: CASES,
    find: "line('equal but invalid in B', PHASE_B, [0, 0, 1, __, __], 'lost', 0)",
    replace: "line('equal but invalid in B', PHASE_B, [0, 0, 1, __, __], 'none', 0)",
    test: RECOVERY_TEST,
    title: 'P1-25: equal, but invalid',
  },
  {
    id: 'P1-26',
    broken: 'the lane is cleared before the repair is fenced',
    file: UNIFY,
    find: 'fenceFor(list, from)\n  const failed = run(list)',
    replace: 'const failed = run(list)',
    test: RECOVERY_TEST,
    title: 'P1-26, P1-27: repair, superblock, table, lanes, all fenced; no frame before',
  },
  {
    id: 'P1-27',
    broken: 'a start recovers nothing before it serves',
    file: BOOT,
    find: 'const blind = recoverLanes(recovery, !unsafe)',
    replace: 'const blind = false',
    test: RECOVERY_TEST,
    title: 'P1-26, P1-27: repair, superblock, table, lanes, all fenced; no frame before',
  },
  {
    id: 'P1-28',
    broken: 'a client reads the first copy twice',
    file: DUAL_WRITE,
    find:
      'const chain = request.places.map(({ memory, offset }) =>\n    memory.reading(offset, ' +
      'new Uint8Array(length)),\n  )',
    replace:
      'const chain = request.places.map(() =>\n    ' +
      'request.places[0]!.memory.reading(request.places[0]!.offset, new ' +
      'Uint8Array(length)),\n  )',
    test: DUAL_WRITE_TEST,
    title: 'S1-M3, P1-28: all are read, and settled where they are of one write',
  },
  {
    id: 'P1-29',
    broken: 'copies that differ are read once',
    file: DUAL_WRITE,
    find: 'if (settled || attempts === ATTEMPTS) {',
    replace: 'if (settled || attempts === 1) {',
    test: DUAL_WRITE_TEST,
    title: 'P1-29: a write that was under way is over when it is read again',
  },
  {
    id: 'P1-30',
    broken: 'of three copies the last is not made equal',
    file: UNIFY,
    find: 'for (let c = 0; c < region.copies; c++) {\n    if (c === into.kept) continue',
    replace: 'for (let c = 0; c < 2; c++) {\n    if (c === into.kept) continue',
    test: RECOVERY_TEST,
    title: 'P1-30, S1-M4: those in ',
  },
  {
    id: 'P1-31',
    broken: 'the last valid copy wins',
    file: COPIES_FILE,
    find: 'if (found < 0 || sequenceAfter(header, copies[found]!.header)) found = c',
    replace: 'found = c',
    test: RECOVERY_TEST,
    title: 'P1-31, D-4: copy ',
  },
]
