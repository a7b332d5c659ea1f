-- Answers: what they acknowledge, and what they say is durable.

-- What an answer says of one request: shown with the answer, and kept with the request.
local function tell(note, request, what, status)
  if request[what] then
    return
  end
  request[what] = { frame = note.number, at = note.at, status = status }
  note.told = note.told or {}
  table.insert(note.told, { request = request, what = what })
end

local function tell_durable(note, request)
  tell(note, request, "received")
  tell(note, request, "persisted")
  local operation = request.operation
  if operation and not operation.persisted then
    operation.persisted = request.persisted
  end
end

local function tell_refused(note, request, status)
  tell(note, request, "received")
  tell(note, request, "refused", status)
end

local function is_decided(request)
  return request.persisted or request.refused
end

-- Every request up to that PSN has come; a flush that was answered is durable.
local function acknowledge(note, flow, psn)
  local left = {}
  for _, request in ipairs(flow.waiting) do
    if is_behind(request.last, psn) then
      tell(note, request, "received")
      if request.is_flush then
        tell(note, request, "persisted")
      end
    end
    if not request.received or (request.is_persist and not is_decided(request)) then
      table.insert(left, request)
    end
  end
  flow.waiting = left
end

-- The request in which that PSN lies is refused, and what was in front of it has come.
local function take_nak(note, flow, packet)
  local syndrome = packet.aeth.syndrome
  acknowledge(note, flow, (packet.psn - 1) % PSNS)
  local is_over = syndrome >= WIRE.syndrome.kind and WIRE.nak_names[syndrome] ~= "sequence"
  for _, request in ipairs(flow.waiting) do
    local is_in = is_behind(request.psn, packet.psn) and is_behind(packet.psn, request.last)
    if is_over and is_in then
      tell(note, request, "refused", syndrome)
    end
  end
end

-- Whether the bitmap of a batch names that record.
local function is_in_bitmap(tvb, packet, index)
  local at = packet.payload_at + math.floor(index / 8)
  local words = packet.paeth.bitmapWords
  if index >= 32 * words or at >= tvb:len() then
    return false
  end
  return math.floor(tvb(at, 1):uint() / 2 ^ (7 - index % 8)) % 2 == 1
end

-- The status of a batch, or the answer to a question about it.
local function take_batch(note, flow, packet, tvb)
  local paeth = packet.paeth
  for _, request in ipairs(flow.waiting) do
    local pweth = request.pweth
    local is_member = pweth and pweth.batch and pweth.batchId == paeth.batchId
    if is_member and (paeth.query or is_behind(request.last, paeth.lastPsn)) then
      if is_in_bitmap(tvb, packet, pweth.batchIndex) then
        tell_durable(note, request)
      elseif not paeth.query then
        tell_refused(note, request, paeth.status)
      end
    end
  end
end

-- The receipt of records, or of plain writes whose acknowledgement was withheld (operation id 0).
local function take_receipt(note, flow, packet)
  local paeth = packet.paeth
  local of_writes = tostring(paeth.operationHigh) == "0"
  for _, request in ipairs(flow.waiting) do
    local is_in = is_behind(paeth.firstPsn, request.last) and is_behind(request.last, paeth.lastPsn)
    local is_member = request.pweth and request.pweth.batch
    local is_meant = of_writes and request.name == "RDMA WRITE" or request.is_persist
    if is_in and is_meant and not is_member then
      if paeth.status == 0 and paeth.all then
        tell_durable(note, request)
      elseif paeth.status ~= 0 then
        tell_refused(note, request, paeth.status)
      end
    end
  end
end

-- What was asked about is durable, or all that the client has sent up to there.
local function take_query_answer(note, flow, packet)
  local paeth = packet.paeth
  local upto = tonumber(tostring(paeth.operationHigh))
  for _, operation in pairs(state.operations[client_of(flow)] or {}) do
    local is_meant = operation.number == upto and paeth.status == 0
    if not operation.persisted then
      if is_meant or (paeth.cumulative and operation.number <= upto) then
        tell(note, operation.request, "persisted")
        operation.persisted = operation.request.persisted
      end
    end
  end
end

-- The first look at a packet that answers.
local function take_answer(note, packet, tvb)
  local own = flow_to(note.from, note.to, packet.qp)
  note.flow = own
  local flow = answered_flow(own, packet.psn)
  if not flow then
    return
  end
  local paeth, aeth = packet.paeth, packet.aeth
  local kind = aeth and bit.band(aeth.syndrome, WIRE.syndrome.kind) or WIRE.syndrome.ack
  if kind ~= WIRE.syndrome.ack then
    take_nak(note, flow, packet)
    return
  end
  if paeth and paeth.batch then
    take_batch(note, flow, packet, tvb)
  elseif paeth and paeth.query then
    take_query_answer(note, flow, packet)
  elseif paeth then
    take_receipt(note, flow, packet)
  end
  acknowledge(note, flow, packet.psn)
end
