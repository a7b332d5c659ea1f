/** A folder that stands for /sys: files with text, and links from one of its folders to another. */

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export class SysFolder {
  private readonly path: string

  constructor(path: string) {
    this.path = path
  }

  /** Writes each file, by its path below /sys. A line's end is added, as a kernel does. */
  tree(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.path, name)), { recursive: true })
      writeFileSync(join(this.path, name), `${text}\n`)
    }
  }

  /** The folder `to`, which is made where it is missing, is found as `name`, too. */
  link(name: string, to: string): void {
    mkdirSync(dirname(join(this.path, name)), { recursive: true })
    mkdirSync(join(this.path, to), { recursive: true })
    symlinkSync(join(this.path, to), join(this.path, name))
  }
}
