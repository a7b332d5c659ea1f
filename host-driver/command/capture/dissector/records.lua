-- Requests: which packets are one, which is sent again, and what of them is to be durable.

-- The client of an operation: whom the connection named, or else the flow itself.
local function client_of(flow)
  return flow.client or flow.key
end

-- The operation of a request, which outlives its connection.
local function operation_of(flow, request, id)
  local client = client_of(flow)
  state.operations[client] = state.operations[client] or {}
  local of_client = state.operations[client]
  local name = tostring(id)
  if not of_client[name] then
    of_client[name] = { number = tonumber(name), request = request, at = request.at }
  end
  return of_client[name]
end

-- A request begins with this packet.
local function begin_request(note, flow, packet)
  local request = {
    name = packet.row.operation,
    frame = note.number,
    at = note.at,
    psn = packet.psn,
    last = packet.psn,
    bytes = 0,
    pweth = packet.pweth,
    pqeth = packet.pqeth,
    -- Is durability asked for?
    is_persist = packet.pweth ~= nil,
    is_flush = packet.opcode == WIRE.flush.opcode
      and math.floor(packet.feth.placement / WIRE.flush.persistent) % 2 == 1,
  }
  if packet.pweth then
    request.operation = operation_of(flow, request, packet.pweth.operationHigh)
    if request.operation.request ~= request then
      note.repeats = request.operation.request.frame
    end
  end
  flow.open = request
  table.insert(flow.waiting, request)
  table.insert(state.requests, request)
  return request
end

-- The first look at a packet of a request.
local function take_request(note, packet)
  local flow = flow_to(note.from, note.to, packet.qp)
  note.flow = flow
  local sent = flow.by_psn[packet.psn]
  local is_again = sent and is_behind(packet.psn, flow.newest)
  if is_again then
    note.request, note.repeats = sent, sent.frames[packet.psn]
    return
  end
  if not flow.newest or is_behind(flow.newest, packet.psn) then
    flow.newest = packet.psn
  end
  local request = flow.open
  if packet.row.begins then
    request = begin_request(note, flow, packet)
    request.frames = {}
  end
  -- Where the capture began inside a request nothing is known of it.
  if request then
    request.last = packet.psn
    request.frames[packet.psn] = note.number
    request.bytes = request.bytes + note.payload_length
    flow.by_psn[packet.psn] = request
    note.request = request
  end
end
