/**
 * What to do about a refusal: one line for each reason that can reach a client. TARGET in a command
 * stands for what the client is connected to; the command `perdure` says it
 * (`command/base/target.ts`).
 */

const ADVICE: Readonly<Record<string, string>> = {
  // PERSIST_ACK
  MEDIA: "Look at 'perdure inspect TARGET'; the part may need replacing.",
  SLOT: "Use a slot below the region's number of slots.",
  RECORD_LENGTH: "Send at most the region's capacity in one record.",
  NOT_ARMED:
    'Nothing can be promised until the save energy is charged; check the part, then retry.',
  GUARD:
    'Send it again; if that is refused, too, the memory or the link of the client damages bytes.',
  COPIES_DIFFER: 'Send the same bytes in every copy.',
  FIXED_LENGTH: "Send exactly the region's capacity.",
  READ_ONLY:
    "Decide what becomes of the lost record: 'perdure discard TARGET REGION:RECORD' gives it up.",
  LEVEL: 'Ask for at most as many durable copies as the region keeps.',
  STAGING: 'Too many long records at once; send this one again.',
  IN_DOUBT: 'Start the part again, then read the record.',
  PLACEMENT_UNKNOWN: 'Run the registrar on the target machine; it probes again after every start.',
  OWN_HOST:
    'In its own memory the host stores and flushes itself, or connects to another card; ' +
    "to a region of another DPU it connects by that DPU's address (`peer`).",
  NO_AGENT: 'Start the flush agent on the target machine, then write again.',
  FLUSH: 'Stop writing, save what can be read, and replace the part.',
  OPERATION_FORGOTTEN: 'Read the record, then decide: another has written there since.',
  SUPERBLOCK: 'The part is read-only: copy what it holds to another one, and replace it.',
  // batches
  PERDURE_NOT_ACCEPTED:
    'There is no promise about it; correct the other one, then send both again.',
  BATCH_ABORTED: 'There is no promise about it; send it again.',
  CONDITION: 'Read the record, decide again, then expect the sequence that it has.',
  BATCH_FIELDS: 'Give the records of a batch other slots, and consecutive operations.',
  BATCH_TIME: 'The record is unchanged; send its whole batch again, without a pause.',
  BATCH_ROOM: 'Too many batches at once; send this one again, or a smaller one.',
  NO_RECEIVE: 'Post a receive at the target, and take its completions; then send again.',
  BATCH_REGION: "Make a batch for each placement, or write these records one by one, by 'persist'.",
  // management
  BLANK: "Format the part first: 'perdure format TARGET', or dpu.format().",
  FOREIGN: 'Nothing was changed; use another part, or clear this one by hand if its data may go.',
  NEWER: 'Nothing was changed; use the version that formatted it.',
  OLDER: 'Nothing was changed; read it out with the version that formatted it, then format again.',
  DAMAGED: 'Nothing was changed; keep the image, and restore the part from its copy.',
  TRUNCATED: 'Nothing was changed; find the rest of the image.',
  FORMATTED: 'Open the regions that are there; formatting twice would lose them.',
  NOT_SERVING: "See why with 'perdure status TARGET'.",
  REQUEST: 'Check the sizes and names that were asked for.',
  PLACEMENT_WRONG: 'Ask for the placement that the probe has shown.',
  UNDER_WAY: 'Ask again in a moment; the driver does.',
  NO_REGION: "See the names with 'perdure region list TARGET'; 'perdure region create' makes one.",
  REGION_EXISTS: 'Open it as it is, or choose another name.',
  REGIONS_FULL: "Use a region that is there, or remove one: 'perdure region list TARGET'.",
  PIECES: 'State the pieces in which the regions lie; more may stand behind them.',
  NO_SPACE: 'Ask for fewer slots, a smaller capacity or fewer copies.',
  QUEUE_PAIRS_FULL: 'Close connections that are no longer needed.',
  QUEUE_DEPTH: 'Give both queues of the pair a place or more, at both ends.',
  PORT_TAKEN:
    'Choose another port; or, where this one was published or at the card itself, give it up by ' +
    "'perdure withdraw TARGET PORT'.",
  // sessions
  NO_SESSION: "Name the card's public key: perdure://KEY@host; its operator has to know yours.",
  HANDSHAKE: "See that the public key in the target is this card's, and the whole of it.",
  PEER_UNKNOWN: "Have the card's operator add a line for the key that 'perdure key show' prints.",
  FORBIDDEN: "Have the card's operator give this key the right, or come with another key.",
  COOKIE: 'Many handshakes come to the card at once: try again.',
  OPEN_CARD:
    'Leave the key out of the target; or give the card a key and a peers file, and start it again.',
  NO_PEER: "See the keys of those who may come with 'perdure peers list TARGET'.",
  PEER_TAKEN: 'Choose another name; or remove the peer first, and then add it with other rights.',
  PEERS_FULL: 'Remove a peer that comes no more.',
  PEERS_FIXED:
    'See that the card may write its peers file, and that it still has an admin; or edit it there.',
  LAST_ADMIN: 'Add another admin first.',
  STOCK_UNSAID:
    'Say stock: true (--stock) where clients without sessions may come, and from which addresses.',
  SERVICES_FULL: "Give up a port that is no longer needed: 'perdure withdraw TARGET PORT'.",
  // another DPU
  CONNECTING: 'Ask again in a moment; dpu.attach() does.',
  ATTACH_FAILED:
    'See that the other DPU is on and publishes the region on that port, or has that region and ' +
    'that public key.',
  CARD_KEYLESS:
    'Give this card a key and a peers file, and start it again; or attach by a port of RDMA-CM.',
  RELAY_REFUSED:
    "Have the other card's operator add a line for this card's public key, with write:REGION.",
  // connecting to a port
  UNSERVED_CONNECTION: 'See the reason; a region is offered on a port by dpu.publish().',
  STALE_CONNECTION: 'Try again: the earlier connection has ended.',
  // no answer at all
  PERDURE_UNREACHABLE: 'See that the card is on, and reachable there; then ask again.',
  // transport
  REM_INV_REQ_ERR: 'The DPU does not serve such a request; are driver and firmware of one version?',
  REM_ACCESS_ERR: 'The key, the rights or the range were refused; open the region again.',
  REM_OP_ERR: "The part could not do it; look at 'perdure inspect TARGET'.",
  RETRY_EXC_ERR: 'The DPU does not answer; is it up and reachable?',
  RNR_RETRY_EXC_ERR: 'The DPU stayed busy; retry later.',
  RESP_TIMEOUT_ERR: 'The DPU has the record but does not say that it is durable; look at it.',
  LOC_LEN_ERR: 'Offer a longer buffer for what is received; give the host more memory for it.',
  LOC_QP_OP_ERR: 'This card does not serve that over this queue; reach the DPU over the network.',
  LOC_PROT_ERR: 'The card found no memory region for the bytes; register the memory again.',
  LOC_ACCESS_ERR: 'The memory of the host did not answer; see the IOMMU, then reconnect.',
  FATAL_ERR: 'The card has ended the queue; see its events, then reconnect.',
  WR_FLUSH_ERR: 'Another request broke the connection; reconnect.',
  GENERAL_ERR: "Look at 'perdure status TARGET'.",
}

/** One line for a fault name or a completion status. */
export function adviceFor(reason: string): string {
  return ADVICE[reason] ?? "See 'perdure inspect TARGET' for the state of the part."
}
