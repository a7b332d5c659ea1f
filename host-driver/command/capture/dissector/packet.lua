-- One packet of RoCEv2 in an Ethernet frame, as far as it tells by itself.

-- What the reader of a header makes of its bytes, by the keys of its record.
local function read_header(tvb, at, header)
  local values = {}
  for _, field in ipairs(header.fields) do
    if field.count == 0 then
      values[field.key] = tvb(at + field.at, field.bytes):uint64()
    else
      local word = tvb(at + field.at, field.bytes):uint()
      local value = math.floor(word / field.divisor) % field.count + field.plus
      if field.scaled then
        value = value * 2 ^ math.floor(word / field.divisor / field.count)
      end
      if field.bit then
        values[field.key] = value == 1
      else
        values[field.key] = value
      end
    end
  end
  return values
end

-- Where the IP datagram of a frame begins, and its type.
local function find_ip(tvb)
  local ethernet = WIRE.ethernet
  if tvb:len() < ethernet.bytes + ethernet.vlan then
    return nil
  end
  local at = ethernet.bytes
  local kind = tvb(ethernet.type, 2):uint()
  if kind == WIRE.ethertypes.vlan then
    at = at + ethernet.vlan
    kind = tvb(at - 2, 2):uint()
  end
  return at, kind
end

-- Where UDP begins, how long the datagram says it is, and the length of the IP header.
local function find_udp(tvb, at, kind)
  if kind == WIRE.ethertypes.ipv4 and tvb:len() >= at + WIRE.ipv4.bytes + WIRE.udp.bytes then
    local ip = WIRE.ipv4
    local fragment = tvb(at + ip.fragment, 2):uint() % 0x4000
    local plain = tvb(at, 1):uint() == ip.version and fragment == 0
    if plain and tvb(at + ip.protocol, 1):uint() == WIRE.udp.protocol then
      return at + ip.bytes, tvb(at + ip.length, 2):uint() - ip.bytes
    end
  elseif kind == WIRE.ethertypes.ipv6 and tvb:len() >= at + WIRE.ipv6.bytes + WIRE.udp.bytes then
    local ip = WIRE.ipv6
    if tvb(at + ip.protocol, 1):uint() == WIRE.udp.protocol then
      return at + ip.bytes, tvb(at + ip.length, 2):uint()
    end
  end
  return nil
end

-- Bytes of extensions behind the headers.
local function extension_bytes(pweth)
  local bytes = pweth.guarded and WIRE.pweth.guard_bytes or 0
  if pweth.carried and not pweth.slotAddressed then
    bytes = bytes + pweth.furtherCopies * WIRE.headers.extension.bytes
  end
  if pweth.batch and pweth.condition == WIRE.pweth.expect then
    bytes = bytes + WIRE.pweth.expect_bytes
  end
  return bytes
end

-- Reads the headers of the packet's opcode; false where the frame ends before they do.
local function read_headers(tvb, packet)
  local row = packet.row
  packet.payload_at = packet.bth + row.header_bytes
  if packet.payload_at > packet.icrc_at or packet.payload_at > tvb:len() then
    return false
  end
  for _, link in ipairs(row.chain) do
    packet[link.name] = read_header(tvb, packet.bth + link.at, WIRE.headers[link.name])
  end
  if packet.pweth then
    packet.payload_at = packet.payload_at + extension_bytes(packet.pweth)
  end
  packet.payload_length = packet.icrc_at - packet.pad - packet.payload_at
  return packet.payload_length >= 0 and packet.payload_at <= tvb:len()
end

-- The packet in a frame, or nil where the frame has none.
local function read_packet(tvb)
  local ip, kind = find_ip(tvb)
  if not ip then
    return nil
  end
  local udp, length = find_udp(tvb, ip, kind)
  if not udp or tvb(udp + WIRE.udp.port, 2):uint() ~= WIRE.udp.roce then
    return nil
  end
  local bth = udp + WIRE.udp.bytes
  local least = WIRE.udp.bytes + WIRE.bth.bytes + WIRE.icrc.bytes
  if tvb(udp + WIRE.udp.length, 2):uint() ~= length or length % 4 ~= 0 or length < least then
    return nil
  end
  if tvb:reported_len() < udp + length or tvb:len() < bth + WIRE.bth.bytes then
    return nil
  end
  local flags = tvb(bth + WIRE.bth.flags, 1):uint()
  local packet = { ip = ip, is_ipv6 = kind == WIRE.ethertypes.ipv6, udp = udp, bth = bth }
  packet.opcode = tvb(bth + WIRE.bth.opcode, 1):uint()
  packet.row = WIRE.opcodes[packet.opcode]
  packet.qp = tvb(bth + WIRE.bth.qp, 3):uint()
  packet.psn = tvb(bth + WIRE.bth.psn, 3):uint()
  packet.pad = math.floor(flags / 16) % 4
  packet.icrc_at = udp + length - WIRE.icrc.bytes
  -- The highest bit of a P_Key is that of membership, and does not count.
  local partition = tvb(bth + WIRE.bth.pkey, 2):uint() % 0x8000
  local is_ours = flags % 16 == 0 and partition == WIRE.bth.partition % 0x8000
  local known = packet.row and is_ours and read_headers(tvb, packet)
  return known and packet or nil
end
