/**
 * Which copy of a record counts, written by hand for every combination of two, three and four
 * copies (D-4, P1-31, crash-model 3.2): `n` is a whole copy of a later write, `o` of the one before
 * it, `x` is none.
 *
 * Invariant: nothing here is imported from `firmware/`, and nothing is worked out: a rule that the
 * product has wrong is not wrong here as well.
 */

/** By the copy that counts, from the first; the last row has those of which none does. */
export const KEPT: Readonly<Record<number, readonly string[]>> = {
  2: ['nn no nx oo ox', 'on xn xo', 'xx'],
  3: [
    'nnn nno nnx non noo nox nxn nxo nxx ooo oox oxo oxx',
    'onn ono onx xnn xno xnx xoo xox',
    'oon oxn xon xxn xxo',
    'xxx',
  ],
  4: [
    `nnnn nnno nnnx nnon nnoo nnox nnxn nnxo nnxx nonn nono nonx noon nooo noox noxn noxo noxx
     nxnn nxno nxnx nxon nxoo nxox nxxn nxxo nxxx oooo ooox ooxo ooxx oxoo oxox oxxo oxxx`,
    `onnn onno onnx onon onoo onox onxn onxo onxx xnnn xnno xnnx xnon xnoo xnox xnxn xnxo xnxx
     xooo xoox xoxo xoxx`,
    'oonn oono oonx oxnn oxno oxnx xonn xono xonx xxnn xxno xxnx xxoo xxox',
    'ooon ooxn oxon oxxn xoon xoxn xxon xxxn xxxo',
    'xxxx',
  ],
}

/** What a cut leaves of a write of all copies in their order, each behind the fence before it. */
export const AFTER_A_CUT: Readonly<Record<number, string>> = {
  2: 'oo xo no nx nn',
  3: 'ooo xoo noo nxo nno nnx nnn',
  4: 'oooo xooo nooo nxoo nnoo nnxo nnno nnnx nnnn',
}

/** One combination, and the copy that counts, or -1. */
interface Counted {
  readonly copies: string
  readonly kept: number
}

/** Every combination of so many copies. */
export function countedOf(count: number): Counted[] {
  const rows = KEPT[count]!
  return rows.flatMap((row, i) =>
    row.split(/\s+/).map((copies) => ({ copies, kept: i === rows.length - 1 ? -1 : i })),
  )
}

/** The same with each `x` a torn copy (`t`) or one that was never written (`-`). */
export function everyCounted(count: number): Counted[] {
  return countedOf(count).flatMap(({ copies, kept }) => {
    let all = ['']
    for (const one of copies) {
      all = all.flatMap((begin) => (one === 'x' ? [`${begin}t`, `${begin}-`] : [begin + one]))
    }
    return all.map((combined) => ({ copies: combined, kept }))
  })
}
