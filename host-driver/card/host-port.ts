/**
 * What the driver sees of a card behind PCIe. Boards offer it, so it is declared with them.
 */

export {
  ForbiddenAccess,
  type HostPort,
  type PagedMemory,
  PageLost,
  type PageUse,
  type PageUser,
  type SharedMemory,
} from '../../boards/host-port.ts'
