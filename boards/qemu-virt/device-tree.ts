/**
 * The device tree of the machine: QEMU's own, and in it the NVDIMM.
 *
 * Invariant: the NVDIMM begins where the ordinary memory ends. QEMU makes it the memory of
 * a second NUMA node, backed by a file; the tree calls it `pmem-region` (kernel:
 * Documentation/devicetree/bindings/pmem/pmem-region.txt), and `mem=` keeps the kernel from taking
 * it for ordinary memory. QEMU's own NVDIMM device would need ACPI, and that UEFI.
 */

import { run } from '../tools/debian/programs.ts'

const MIB = 2 ** 20

/** Where QEMU's machine `virt` has its memory (QEMU: hw/arm/virt.c, VIRT_MEM), and how much. */
const MEMORY_AT = 2 ** 30
export const MEMORY_MIB = 512

const PART_AT = MEMORY_AT + MEMORY_MIB * MIB

/** What the tree depends on, as arguments. `object` is the backend of the NVDIMM, id 'nv'. */
export function machineArguments(cpu: string, partBytes: number, object: string): string[] {
  return [
    ...['-M', 'virt,gic-version=3', '-cpu', cpu, '-accel', 'tcg', '-smp', '1'],
    ...['-m', `${MEMORY_MIB + partBytes / MIB}M`],
    ...['-object', `memory-backend-ram,id=ram,size=${MEMORY_MIB}M`, '-object', object],
    ...['-numa', 'node,nodeid=0,memdev=ram', '-numa', 'node,nodeid=1,memdev=nv'],
    ...['-display', 'none', '-nodefaults', '-no-user-config'],
  ]
}

/** Writes the tree for such a machine to `path`. Its random seed is of this call. */
export function writeDeviceTree(path: string, cpu: string, partBytes: number): void {
  const plain = machineArguments(cpu, partBytes, `memory-backend-ram,id=nv,size=${partBytes}`)
  plain[1] += `,dumpdtb=${path}`
  run('qemu-system-aarch64', plain)
  const node = `/pmem@${PART_AT.toString(16)}`
  const cells = [PART_AT, partBytes].flatMap((value) => [
    Math.floor(value / 2 ** 32).toString(16),
    (value % 2 ** 32).toString(16),
  ])
  run('fdtput', ['-c', path, node])
  run('fdtput', ['-t', 's', path, node, 'compatible', 'pmem-region'])
  run('fdtput', ['-t', 'x', path, node, 'reg', ...cells])
}
