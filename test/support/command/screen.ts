/** What is written to standard output and standard error in this process, as one text. */

/** Runs `work` while nothing is shown, as on a terminal with colours or as in a pipe. */
export function writtenBy(isTerminal: boolean, work: () => void): string {
  const { stdout, stderr } = process
  const written: string[] = []
  const kept = [stdout.write, stderr.write, stderr.isTTY] as const
  const colours = process.env.NO_COLOR
  const take = (text: string | Uint8Array): boolean => {
    written.push(String(text))
    return true
  }
  try {
    delete process.env.NO_COLOR
    Object.assign(stdout, { write: take })
    Object.assign(stderr, { write: take, isTTY: isTerminal })
    work()
  } finally {
    Object.assign(stdout, { write: kept[0] })
    Object.assign(stderr, { write: kept[1], isTTY: kept[2] })
    if (colours !== undefined) process.env.NO_COLOR = colours
  }
  return written.join('')
}
