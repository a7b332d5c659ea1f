-- What is shown of a packet: its headers, what belongs to it, and one line.

local function add(tree, name, range, value)
  return tree:add(FIELDS[name], range, value)
end

local function is_told(field, values)
  local is_missing = field.only and not values[field.only]
  return not is_missing and not (field.unless and values[field.unless])
end

local function show_header(tree, tvb, at, header, values)
  local branch = tree:add(perdure, tvb(at, header.bytes), header.title)
  for _, field in ipairs(header.fields) do
    if is_told(field, values) then
      add(branch, field.field, tvb(at + field.at, field.bytes), values[field.key])
    end
  end
  return branch
end

-- Where a record goes: its slot, and its region where the capture has told the name of the key.
local function show_place(branch, tvb, packet, note)
  local at = packet.bth
  for _, link in ipairs(packet.row.chain) do
    if link.name == "reth" then
      at = packet.bth + link.at
    end
  end
  local region = state.regions[region_key(note.to, packet.reth.rkey)]
  if packet.pweth and packet.pweth.slotAddressed then
    add(branch, "slot", tvb(at, 4), tvb(at, 4):uint())
    add(branch, "offset", tvb(at + 4, 4), tvb(at + 4, 4):uint())
  end
  if region then
    add(branch, "region", tvb(at, 0), region):set_generated()
  end
end

-- The extensions behind a PWETH, in their order.
local function show_extensions(tree, tvb, packet)
  local pweth = packet.pweth
  local at = packet.bth + packet.row.header_bytes
  if pweth.carried and not pweth.slotAddressed then
    local extension = WIRE.headers.extension
    for _ = 1, pweth.furtherCopies do
      show_header(tree, tvb, at, extension, read_header(tvb, at, extension))
      at = at + extension.bytes
    end
  end
  if pweth.batch and pweth.condition == WIRE.pweth.expect then
    add(tree, "expect", tvb(at, WIRE.pweth.expect_bytes), tvb(at, 8):uint64())
    at = at + WIRE.pweth.expect_bytes
  end
  if pweth.guarded then
    add(tree, "guard", tvb(at, WIRE.pweth.guard_bytes), tvb(at, 4):uint())
  end
end

-- The bitmap of a batch, and how many records it names.
local function show_bitmap(tree, tvb, packet)
  local paeth = packet.paeth
  local bytes = math.min(4 * paeth.bitmapWords, packet.payload_length)
  if not paeth.batch or bytes == 0 or packet.payload_at + bytes > tvb:len() then
    return
  end
  local durable = 0
  for index = 0, paeth.batchCount - 1 do
    if is_in_bitmap(tvb, packet, index) then
      durable = durable + 1
    end
  end
  local range = tvb(packet.payload_at, bytes)
  tree:add(FIELDS.bitmap, range)
  add(tree, "durable", range, durable):set_generated()
end

local function show_headers(tree, tvb, packet, note)
  for _, link in ipairs(packet.row.chain) do
    local values = packet[link.name]
    local at = packet.bth + link.at
    local branch = show_header(tree, tvb, at, WIRE.headers[link.name], values)
    if link.name == "reth" then
      show_place(branch, tvb, packet, note)
    elseif link.name == "aeth" and WIRE.nak_names[values.syndrome] then
      add(branch, "nak", tvb(at, 1), WIRE.nak_names[values.syndrome])
    end
  end
  if packet.pweth then
    show_extensions(tree, tvb, packet)
  elseif packet.paeth then
    show_bitmap(tree, tvb, packet)
  end
end

-- A control call that is sealed: whose session and which number, and that there is no more to see.
local function show_sealed(branch, tvb, body)
  local sealed = WIRE.sealed
  add(branch, "sealed.session", tvb(body + sealed.session, 4), tvb(body + sealed.session, 4):uint())
  local counter = tvb(body + sealed.counter, 8)
  add(branch, "sealed.counter", counter, counter:uint64())
  branch:add(FIELDS.sealed, tvb(body, sealed.bytes))
end

local function show_datagram(tree, tvb, datagram)
  local at = datagram.at
  if datagram.mad then
    local branch = show_header(tree, tvb, at, WIRE.headers.mad, datagram.mad)
    local body = at + WIRE.mad.body
    if datagram.is_sealed then
      show_sealed(branch, tvb, body)
    end
    local values, fields = read_body(tvb, datagram)
    for _, field in ipairs(fields) do
      local bytes = field.bytes == "text" and WIRE.mad.name_bytes or field.bytes
      add(branch, field.field, tvb(body + field.at, bytes), values[field.field])
    end
    return
  end
  local branch = show_header(tree, tvb, at, WIRE.headers.cm, datagram.cm)
  local kind = datagram.cm.attribute
  local name = kind == WIRE.cm.req and "req" or kind == WIRE.cm.rep and "rep"
  if name then
    local body = at + WIRE.cm.body
    show_header(branch, tvb, body, WIRE.headers[name], read_header(tvb, body, WIRE.headers[name]))
    local at_block = body + WIRE.cm[name .. "_private"]
    local block = read_block(tvb, at_block)
    if block then
      show_header(branch, tvb, at_block, WIRE.headers.capability, block)
    end
  end
end

local function show_tag(tree, tvb, packet)
  local at = packet.icrc_at - WIRE.trailer.bytes
  add(tree, "tag.counter", tvb(at, 8), tvb(at, 8):uint64())
  tree:add(FIELDS.tag, tvb(at + WIRE.trailer.tag, WIRE.trailer.bytes - WIRE.trailer.tag))
end

local function show_icrc(tree, tvb, packet, status)
  if status == ICRC.cut then
    add(tree, "icrc.status", tvb(packet.bth, 0), status):set_generated()
    return
  end
  local range = tvb(packet.icrc_at, WIRE.icrc.bytes)
  add(tree, "icrc", range, range:le_uint())
  if status then
    local item = add(tree, "icrc.status", range, status)
    item:set_generated()
    if status == ICRC.bad then
      item:add_proto_expert_info(EXPERTS.icrc)
    end
  end
end

local function add_time(tree, name, range, seconds)
  local whole = math.floor(seconds)
  local time = NSTime(whole, math.floor((seconds - whole) * 1e9 + 0.5))
  add(tree, name, range, time):set_generated()
end

-- What has become of the request that this packet is of, as far as the capture was read.
local function show_fate(tree, range, note)
  local request = note.request
  if note.repeats then
    local item = add(tree, "repeats", range, note.repeats)
    item:set_generated()
    item:add_proto_expert_info(EXPERTS.repeated)
  end
  local persisted = request.persisted or (request.operation and request.operation.persisted)
  local since = request.operation and request.operation.at or request.at
  if request.received then
    add(tree, "received_in", range, request.received.frame):set_generated()
    add_time(tree, "time_to_received", range, request.received.at - request.at)
  end
  if persisted then
    add(tree, "persisted_in", range, persisted.frame):set_generated()
    add_time(tree, "time_to_persisted", range, persisted.at - since)
  end
  if request.refused then
    add(tree, "refused_in", range, request.refused.frame):set_generated()
  end
  local is_due = request.is_persist and request.frame == note.number
  if is_due and note.is_second and not persisted and not request.refused then
    tree:add_proto_expert_info(EXPERTS.never)
  end
end

local WHAT = { received = "received", persisted = "durable", refused = "refused" }

local function title_of(request)
  local operation = request.operation
  return request.name .. (operation and " op " .. ("%d"):format(operation.number) or "")
end

-- What an answer says of each request.
local function show_told(tree, range, note)
  for _, one in ipairs(note.told or {}) do
    local request, what = one.request, one.what
    local branch = tree:add(perdure, range, title_of(request) .. ": " .. WHAT[what])
    branch:set_generated()
    add(branch, "request_in", range, request.frame):set_generated()
    if what == "persisted" then
      local since = request.operation and request.operation.at or request.at
      add_time(branch, "time_to_persisted", range, note.at - since)
    elseif what == "received" then
      add_time(branch, "time_to_received", range, note.at - request.at)
    else
      branch:add_proto_expert_info(EXPERTS.refused)
    end
  end
end

-- Words for the line of a packet of ours; nil where Wireshark's own line is as good.
local function line_of(packet, note)
  local datagram = packet.datagram
  if datagram and datagram.mad then
    local mad = datagram.mad
    local words = { WIRE.attribute_names[mad.attribute] or "attribute " .. mad.attribute }
    words[2] = WIRE.method_names[mad.method] or "method " .. mad.method
    if mad.fault ~= 0 then
      words[3] = "refused: " .. (WIRE.fault_names[mad.fault] or mad.fault)
    elseif datagram.is_sealed then
      words[3] = "sealed"
    end
    return table.concat(words, " ")
  elseif not packet.row.ours and not packet.row.newer then
    return nil
  end
  local words = { packet.row.name, ("QP=0x%06x"):format(packet.qp) }
  if packet.pweth or packet.pqeth then
    local header = packet.pweth or packet.pqeth
    words[#words + 1] = "op " .. tostring(header.operationHigh)
  end
  if packet.pweth and packet.pweth.slotAddressed then
    words[#words + 1] = "slot " .. tostring(packet.reth.vaHigh:higher())
  end
  if packet.paeth then
    local paeth = packet.paeth
    words[#words + 1] = WIRE.status_names[paeth.status] or "status " .. paeth.status
    words[#words + 1] = "op " .. tostring(paeth.operationHigh)
    words[#words + 1] = "records " .. paeth.records .. " copies " .. paeth.copies
  elseif packet.reth then
    words[#words + 1] = packet.reth.length .. " B"
  end
  if note.repeats then
    words[#words + 1] = "[repeats frame " .. note.repeats .. "]"
  end
  return table.concat(words, " ")
end
