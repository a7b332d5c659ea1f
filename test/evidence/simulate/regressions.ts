/**
 * Seeds that have found something, in the product or in its judges: they are played in every run,
 * of every size.
 *
 * Each names the world that was asked for, and what it was.
 */

import type { World } from './shape.ts'

export interface Regression {
  readonly seed: number
  readonly world: World
  /** What was wrong when it was found. */
  readonly found: string
}

export const REGRESSIONS: readonly Regression[] = [
  {
    seed: 14,
    world: 'calm',
    found: 'a plain WRITE of a record was acknowledged with the group that made way for it',
  },
  {
    seed: 329750064,
    world: 'media',
    found: 'readers were shown a first copy that the next start takes back, as its line refused it',
  },
  {
    seed: 2654522819,
    world: 'network',
    found: 'judge: a record of a batch was overwritten by one sent again, before its status left',
  },
  {
    seed: 2654465833,
    world: 'network',
    found: 'judge: the packets of an answer were of two executions of a READ',
  },
  {
    seed: 2654532763,
    world: 'network',
    found: 'judge: an answer came so late that the version it shows was forgotten',
  },
  {
    seed: 2654523806,
    world: 'media',
    found: 'judge: a record was mended between the refusal of a READ and its arrival',
  },
  {
    seed: 2654469778,
    world: 'media',
    found: 'judge: a line that refused stores was well again, and its record still of two ages',
  },
  {
    seed: 2654448807,
    world: 'health',
    found: 'world: of two cards one was off when it was to be cut',
  },
  {
    seed: 2654437828,
    world: 'health',
    found: 'judge: a record was not given up, as the part was not armed, and was taken for blank',
  },
  {
    seed: 2654447838,
    world: 'mixed',
    found: "judge: the power went as a record was given up, and its copies were nobody's to change",
  },
  {
    seed: 2654451803,
    world: 'mixed',
    found:
      'world: a failing save took back that a region was made, and clients asked for it forever',
  },
  {
    seed: 2654497803,
    world: 'mixed',
    found: 'judge: a line refused a repair, and the lane that knew of it was lost by another error',
  },
  {
    seed: 100036,
    world: 'media',
    found: 'readers were shown a record in one copy, and when that was lost, the older one',
  },
  {
    seed: 100534,
    world: 'media',
    found: 'likewise, and no start lay between',
  },
  {
    seed: 100209,
    world: 'media',
    found: 'likewise, and the start before had shown it',
  },
  {
    seed: 400029,
    world: 'mixed',
    found: 'judge: a slot had decayed behind the data of its record, and was taken for unreadable',
  },
  {
    seed: 2157298147,
    world: 'wraps',
    found: 'what was shown behind a failed save, as its copies took no store, was taken back later',
  },
  {
    seed: 4253382360,
    world: 'mixed',
    found: 'behind the NAK of a plain WRITE a refused record was answered, which acknowledged both',
  },
  {
    seed: 4253407376,
    world: 'wraps',
    found: 'a failed save took a start back, and the next one handed out the same queue pairs',
  },
  {
    seed: 4253407376,
    world: 'mixed',
    found: 'likewise, and records were written in the name of another client',
  },
  {
    seed: 10,
    world: 'hosted',
    found:
      'a host did not deliver what a READ copies, in front of a group, and the part was closed',
  },
  {
    seed: 41,
    world: 'hosted',
    found: 'a start found whole what the one before had repaired into caches, which the host lost',
  },
  {
    seed: 1047,
    world: 'hosted',
    found: 'a host did not deliver a first copy that was acknowledged, and an older one was shown',
  },
  {
    seed: 2076,
    world: 'hosted',
    found: 'judge: copies that waited for their host were of a version that was forgotten',
  },
  {
    seed: 502422,
    world: 'hosted',
    found: 'a start that could not ask its host took a batch in order back that had been shown',
  },
  {
    seed: 3669308856,
    world: 'mixed',
    found: 'behind two failed saves an older copy was shown for one that the medium had lost',
  },
  {
    seed: 3409185058,
    world: 'network',
    found: 'judge: a frame that the network gave to another client was answered, and taken for all',
  },
  {
    seed: 37934605,
    world: 'wraps',
    found: 'judge: a medium lost a copy behind a save that may have taken back the others',
  },
  {
    seed: 68690727,
    world: 'wraps',
    found: 'judge: a part that is worn out gave a queue pair the number of an earlier one',
  },
  {
    seed: 510001486,
    world: 'wraps',
    found:
      'world: a superblock page was lost while the other, behind a failed fence, was not whole',
  },
  {
    seed: 1071271319,
    world: 'hosted',
    found:
      'a repetition that waited for an agent was executed again, as the table spoke no more of it',
  },
  {
    seed: 1071219317,
    world: 'wraps',
    found: 'world: the network made a request of one client another one, with a right ICRC',
  },
  {
    seed: 1300002249,
    world: 'hosted',
    found: 'judge: a repair overwrote all copies but one as its host went',
  },
  {
    seed: 1400000334,
    world: 'wraps',
    found: 'judge: a failed save brought back a version that had been forgotten as overwritten',
  },
  {
    seed: 1500008311,
    world: 'hosted',
    found:
      'the repair of a record of the card failed with that of its host, and left it of two ages',
  },
  {
    seed: 12552083,
    world: 'media',
    found: 'judge: lane and first copy were lost, and the copy that took no store was well again',
  },
  {
    seed: 3007263349,
    world: 'media',
    found: 'judge: a copy was mended that only loads had seen whole, behind a repair half refused',
  },
  {
    seed: 430621920,
    world: 'wraps',
    found: 'judge: the status of a batch overtook the READ of a cell that it had written',
  },
  {
    seed: 1852010812,
    world: 'bytes',
    found: 'judge: a client that had heard of no restart wrote to the number of another queue pair',
  },
  {
    seed: 10002,
    world: 'relays',
    found: 'world: clients looked at the clock before another card could have answered, every time',
  },
]
