-- Control calls and messages of RDMA-CM: which answer is of which request, and what both tell of
-- connections and regions.

-- The datagram in the payload of a packet: a table with its header, or nil where it is none.
local function read_datagram(tvb, packet)
  local at, known = packet.payload_at, WIRE.mad
  if not packet.deth or packet.payload_length ~= known.bytes then
    return nil
  end
  if tvb:len() < at + known.bytes or tvb(at, 1):uint() ~= known.base_version then
    return nil
  end
  local class = tvb(at + known.class, 1):uint()
  local class_version = tvb(at + known.class_version_at, 1):uint()
  if class == WIRE.cm.class and class_version == WIRE.cm.class_version then
    local is_send = tvb(at + WIRE.cm.method_at, 1):uint() == WIRE.cm.method
    return is_send and { at = at, cm = read_header(tvb, at, WIRE.headers.cm) } or nil
  end
  local is_ours = tvb(at + known.magic_at, 4):uint() == known.magic
  if class ~= known.vendor or class_version ~= known.class_version or not is_ours then
    return nil
  end
  local version = tvb(at + known.version_at, 1):uint()
  if version ~= known.version and version ~= known.sealed then
    return nil
  end
  local datagram = { at = at, mad = read_header(tvb, at, WIRE.headers.mad) }
  datagram.is_sealed = version == known.sealed
  datagram.is_answer = datagram.mad.method == known.response
  return datagram
end

-- A field of the body of a control call, as FIELDS and trees have it.
local function body_value(tvb, at, field)
  if field.bytes == "text" then
    return tvb(at + field.at, WIRE.mad.name_bytes):stringz()
  elseif field.bytes == 8 then
    return tvb(at + field.at, 8):uint64()
  end
  return tvb(at + field.at, field.bytes):uint()
end

-- The body of a control call by the names of its fields; empty where it is sealed or not told.
local function read_body(tvb, datagram)
  local bodies = datagram.is_answer and WIRE.bodies.answer or WIRE.bodies.request
  local values = {}
  if datagram.is_sealed or (datagram.is_answer and datagram.mad.fault ~= 0) then
    return values, {}
  end
  local fields = bodies[datagram.mad.attribute] or {}
  for _, field in ipairs(fields) do
    values[field.field] = body_value(tvb, datagram.at + WIRE.mad.body, field)
  end
  return values, fields
end

local function region_key(card, rkey)
  return card .. "/" .. rkey
end

-- What the answer of a card tells: who is connected, which key is which region's.
local function learn_from_answer(note, call, body)
  if body["region.rkey"] and body["region.rkey"] ~= 0 then
    state.regions[region_key(note.from, body["region.rkey"])] = body.region
  end
  local asked = call.body
  if body["connect.qp"] and asked["connect.client_qp"] and not call.is_connected then
    call.is_connected = true
    local client = tostring(asked.client)
    connect(note.to, note.from, asked["connect.client_qp"], body["connect.qp"], client)
  end
end

-- The first look at a control call.
local function take_call(note, tvb, packet)
  local datagram = packet.datagram
  local mad, body = datagram.mad, read_body(tvb, datagram)
  local client, card = note.from, note.to
  if datagram.is_answer then
    client, card = card, client
  end
  local key = client .. ">" .. card .. "/" .. tostring(mad.transactionHigh)
  local call = state.calls[key]
  if not datagram.is_answer then
    if call then
      note.repeats = call.request.frame
    else
      local name = WIRE.attribute_names[mad.attribute] or "attribute " .. mad.attribute
      local request = { name = name, is_call = true, frame = note.number, at = note.at }
      request.bytes = packet.payload_length
      call = { request = request, body = body }
      state.calls[key] = call
      table.insert(state.requests, request)
    end
    note.request = call.request
  elseif call then
    tell(note, call.request, "received")
    learn_from_answer(note, call, body)
  end
end

-- Our block in the private data of a message; nil where there is none. An older one has no client.
local function read_block(tvb, at)
  local known = WIRE.capability
  local is_ours = tvb(at, 4):uint() == known.magic and tvb(at + 4, 1):uint() == known.version
  local words = tvb(at + 5, 1):uint()
  if not is_ours or words < known.least then
    return nil
  end
  local block = read_header(tvb, at, WIRE.headers.capability)
  if words < known.words then
    block.clientHigh = UInt64(0)
  end
  return block
end

-- The client id in it.
local function client_in(tvb, at)
  local block = read_block(tvb, at)
  local client = block and tostring(block.clientHigh) or "0"
  return client ~= "0" and client or nil
end

-- The first look at a message of RDMA-CM: REQ and REP together tell both queue pairs.
local function take_cm(note, tvb, packet)
  local datagram = packet.datagram
  local body = datagram.at + WIRE.cm.body
  if datagram.cm.attribute == WIRE.cm.req then
    local req = read_header(tvb, body, WIRE.headers.req)
    local client = client_in(tvb, body + WIRE.cm.req_private)
    local key = note.from .. ">" .. note.to .. "/" .. req.localId
    state.connecting[key] = state.connecting[key] or { qp = req.qpn, client = client }
  elseif datagram.cm.attribute == WIRE.cm.rep then
    local rep = read_header(tvb, body, WIRE.headers.rep)
    local key = note.to .. ">" .. note.from .. "/" .. rep.remoteId
    local asked = state.connecting[key]
    if asked and not asked.is_connected then
      asked.is_connected = true
      connect(note.to, note.from, asked.qp, rep.qpn, asked.client)
    end
  end
end
