/**
 * The text format of Prometheus, read strictly: a family is its HELP, its TYPE and its samples, in
 * this order and together. Throws for everything else.
 */

interface MetricFamily {
  readonly type: string
  readonly samples: MetricSample[]
}

interface MetricSample {
  /** Of a histogram: what stands behind the name of its family; else ''. */
  readonly suffix: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: string
}

const SAMPLE = /^(?<name>[a-z_]+)\{(?<labels>.*)\} (?<value>-?[\d.]+(?:e[+-]?\d+)?)$/
const LABEL = /([a-z_][a-z_\d]*)="((?:[^"\\]|\\[\\n"])*)"(?:,|$)/gy

export function readMetrics(text: string): Map<string, MetricFamily> {
  const families = new Map<string, MetricFamily>()
  const lines = text.split('\n')
  if (lines.pop() !== '') throw new Error('the last line does not end')
  let open: [name: string, family: MetricFamily] | null = null
  for (let at = 0; at < lines.length; at++) {
    const help = /^# HELP ([a-z_]+) \S.*$/.exec(lines[at]!)
    if (help !== null) {
      const type = /^# TYPE ([a-z_]+) (counter|gauge|histogram)$/.exec(lines[++at] ?? '')
      const name = help[1]!
      if (type?.[1] !== name || families.has(name)) throw new Error(`a second ${name}, or no TYPE`)
      open = [name, { type: type[2]!, samples: [] }]
      families.set(...open)
      continue
    }
    const { name, labels, value } = SAMPLE.exec(lines[at]!)?.groups ?? {}
    const suffix = open === null ? undefined : name?.slice(open[0].length)
    if (open === null || !name?.startsWith(open[0]) || !isSuffix(open[1].type, suffix!)) {
      throw new Error(`no sample of its family: ${lines[at]}`)
    }
    open[1].samples.push({ suffix: suffix!, labels: labelsOf(labels!), value: value! })
  }
  return families
}

function isSuffix(type: string, suffix: string): boolean {
  return type === 'histogram' ? ['_bucket', '_sum', '_count'].includes(suffix) : suffix === ''
}

function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {}
  let end = 0
  for (const match of text.matchAll(LABEL)) {
    labels[match[1]!] = match[2]!.replaceAll(/\\([\\n"])/g, (_, one: string) => {
      return one === 'n' ? '\n' : one
    })
    end = match.index + match[0].length
  }
  if (end !== text.length) throw new Error(`no labels: ${text}`)
  return labels
}
