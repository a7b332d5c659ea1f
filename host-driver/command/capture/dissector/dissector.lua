-- What Wireshark calls.

-- Where a packet has a tag, its payload ends in front of it.
local function cut_trailer(packet, note)
  local tagged = proven_trailer(packet)
  local flow = note.flow
  if tagged == nil and flow then
    tagged = flow.tagged or (flow.partner and flow.partner.tagged)
  elseif tagged and flow then
    flow.tagged = true
  end
  return tagged == true
end

-- The first look at a frame; what it finds is kept under the number of the frame.
local function take_packet(tvb, pinfo, packet)
  local note = { number = pinfo.number, at = pinfo.rel_ts }
  note.from, note.to = tostring(pinfo.net_src), tostring(pinfo.net_dst)
  state.frames[pinfo.number] = note
  if perdure.prefs.check_icrc then
    note.icrc = icrc_status(tvb, packet)
  end
  local row = packet.row
  if row.transport == "rc" then
    note.flow = flow_to(note.from, note.to, packet.qp)
    note.is_tagged = cut_trailer(packet, note)
  end
  note.payload_length = packet.payload_length - (note.is_tagged and WIRE.trailer.bytes or 0)
  if packet.datagram then
    local take = packet.datagram.mad and take_call or take_cm
    take(note, tvb, packet)
  elseif row.transport == "rc" and row.request then
    take_request(note, packet)
  elseif row.transport == "rc" and row.response then
    take_answer(note, packet, tvb)
  end
  return note
end

local function show_packet(tvb, tree, packet, note)
  local whole = tvb(packet.bth, math.min(tvb:len(), packet.icrc_at + WIRE.icrc.bytes) - packet.bth)
  local branch = tree:add(perdure, whole, "Perdure: " .. packet.row.name)
  add(branch, "opcode", tvb(packet.bth + WIRE.bth.opcode, 1), packet.opcode)
  add(branch, "qp", tvb(packet.bth + WIRE.bth.qp, 3), packet.qp)
  add(branch, "psn", tvb(packet.bth + WIRE.bth.psn, 3), packet.psn)
  add(branch, "payload_length", tvb(packet.payload_at, 0), note.payload_length):set_generated()
  show_headers(branch, tvb, packet, note)
  if packet.datagram then
    show_datagram(branch, tvb, packet.datagram)
  end
  if note.is_tagged and packet.icrc_at <= tvb:len() then
    show_tag(branch, tvb, packet)
  end
  show_icrc(branch, tvb, packet, note.icrc)
  if note.request then
    show_fate(branch, whole, note)
  end
  show_told(branch, whole, note)
end

function perdure.init()
  forget_all()
end

function perdure.dissector(tvb, pinfo, tree)
  local packet = read_packet(tvb)
  if not packet then
    return
  end
  packet.datagram = read_datagram(tvb, packet)
  local note = state.frames[pinfo.number]
  if note and pinfo.visited then
    note.is_second = true
  else
    note = take_packet(tvb, pinfo, packet)
  end
  show_packet(tvb, tree, packet, note)
  local line = line_of(packet, note)
  if line then
    local is_ours = packet.row.ours or packet.datagram
    if is_ours then
      pinfo.cols.protocol = "Perdure"
    end
    pinfo.cols.info = line
  end
end

register_postdissector(perdure)
