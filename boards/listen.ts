/** Unix sockets that are listened on. */

import { once } from 'node:events'
import { accessSync, constants, lstatSync, unlinkSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { dirname } from 'node:path'

/**
 * Listens on a Unix socket. A socket file that a killed process left is replaced; one that is
 * listened on is not: rejects with EADDRINUSE, or with the system's other errors.
 */
export async function listenOn(path: string): Promise<Server> {
  try {
    return await listen(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EADDRINUSE' || (await isListenedOn(path))) throw error
    unlinkSync(path)
    return await listen(path)
  }
}

async function listen(path: string): Promise<Server> {
  // Of a folder that is not there a socket says that there is no permission.
  accessSync(dirname(path), constants.W_OK)
  const server = createServer()
  server.listen(path)
  await once(server, 'listening')
  return server
}

/** Whether somebody answers there; a file that is no socket counts as somebody's, too. */
async function isListenedOn(path: string): Promise<boolean> {
  if (!lstatSync(path).isSocket()) return true
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ECONNREFUSED'
  } finally {
    socket.destroy()
  }
}
