/**
 * What can be read of the structure from the sources as they stand: how much lies where, and who
 * imports whom.
 */

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { median } from '../support/bench/table.ts'
import {
  filesBelow,
  importsOf,
  ROOT,
  type Source,
  sourcesBelow,
} from '../support/source/sources.ts'

/** What is measured by itself. */
export const PARTS = ['firmware', 'host-driver', 'boards', 'test'] as const

export interface Part {
  readonly part: string
  readonly files: number
  readonly lines: number
  readonly medianLines: number
  /** Share of the lines of TypeScript and JavaScript that imports take, 0 to 1. */
  readonly imports: number
  /** Groups of files that need each other in a circle, types included; files of the largest. */
  readonly circles: number
  readonly largestCircle: number
  /** The folder with the most files beside each other. */
  readonly largestFolder: string
  readonly filesThere: number
}

export interface Folder {
  readonly folder: string
  readonly files: number
  readonly lines: number
}

interface File {
  readonly path: string
  readonly lines: number
}

function filesOf(part: string): File[] {
  return filesBelow(part)
    .filter((path) => /\.(ts|mjs|cjs|c|h)$/.test(path))
    .map((path) => ({
      path,
      lines: readFileSync(join(ROOT, path), 'utf8').split('\n').length - 1,
    }))
}

const sum = (files: readonly File[]): number => files.reduce((all, { lines }) => all + lines, 0)

function byFolder(files: readonly File[]): Map<string, File[]> {
  const folders = new Map<string, File[]>()
  for (const file of files) {
    const folder = dirname(file.path)
    folders.set(folder, [...(folders.get(folder) ?? []), file])
  }
  return folders
}

/** Every folder with code, by its path. */
export function foldersOf(): Folder[] {
  return PARTS.flatMap((part) => {
    return [...byFolder(filesOf(part))].map(([folder, files]) => ({
      folder,
      files: files.length,
      lines: sum(files),
    }))
  }).sort((a, b) => (a.folder < b.folder ? -1 : 1))
}

const IMPORT_LINES = /^(?:import|export)\s(?:type\s)?(?:[\w*{][^'";]*?\sfrom\s)?['"][^'"]+['"].*$/gm

function importLines(text: string): number {
  return [...text.matchAll(IMPORT_LINES)].reduce((all, [one]) => all + one.split('\n').length, 0)
}

/** Which files each of these imports, types included. */
export function importsBetween(sources: readonly Source[]): Map<string, string[]> {
  return new Map(
    sources.map((source) => [
      source.path,
      importsOf(source).flatMap(({ file }) => (file === null ? [] : [file])),
    ]),
  )
}

/** Groups of nodes that reach each other, of two and more (Tarjan). */
export function circlesOf(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  const circles: string[][] = []
  const walk = (node: string): void => {
    const own = index.size
    index.set(node, own)
    low.set(node, own)
    stack.push(node)
    for (const next of edges.get(node) ?? []) {
      if (!index.has(next)) walk(next)
      if (stack.includes(next)) low.set(node, Math.min(low.get(node)!, low.get(next)!))
    }
    if (low.get(node) !== own) return
    const circle = stack.splice(stack.indexOf(node))
    if (circle.length > 1) circles.push(circle)
  }
  for (const node of edges.keys()) if (!index.has(node)) walk(node)
  return circles
}

/** One part, measured. */
export function partOf(part: string): Part {
  const files = filesOf(part)
  const sources = sourcesBelow(part)
  const circles = circlesOf(importsBetween(sources))
  const scriptLines = sum(files.filter(({ path }) => /\.(ts|mjs)$/.test(path)))
  const folders = [...byFolder(files)]
  const [largestFolder, there] = folders.sort(([, a], [, b]) => b.length - a.length)[0]!
  return {
    part,
    files: files.length,
    lines: sum(files),
    medianLines: median(files.map(({ lines }) => lines)),
    imports: sources.reduce((all, { text }) => all + importLines(text), 0) / scriptLines,
    circles: circles.length,
    largestCircle: Math.max(0, ...circles.map((circle) => circle.length)),
    largestFolder,
    filesThere: there.length,
  }
}
