-- Which packets end in a tag. Nothing in a packet says so; its lengths often prove it, and what was
-- proven of one packet holds for all of its connection. Where nothing is proven, nothing is shown.

local function is_mtu(bytes)
  return bytes == 256 or bytes == 512 or bytes == 1024 or bytes == 2048 or bytes == 4096
end

-- Bytes of payload that the headers of the packet announce; nil where they do not tell.
local function announced(packet)
  local rules, row = WIRE.payloads, packet.row
  if row.payload == rules.none then
    return 0
  elseif row.payload == rules.eight then
    return 8
  elseif packet.paeth then
    return 4 * packet.paeth.bitmapWords
  elseif packet.mseth then
    local mseth = packet.mseth
    local is_list = mseth.form == WIRE.memory.list
    return is_list and mseth.entries * WIRE.memory.entry or math.ceil(mseth.entries / 8)
  elseif packet.reth and row.begins and row.ends then
    local carried = packet.pweth and packet.pweth.carried
    return packet.reth.length * (carried and packet.pweth.furtherCopies + 1 or 1)
  end
  return nil
end

-- Whether the packet has a trailer: true, false, or nil where its lengths do not prove it.
local function proven_trailer(packet)
  local length, trailer = packet.payload_length, WIRE.trailer.bytes
  if packet.row.payload == WIRE.payloads.full then
    if is_mtu(length) or is_mtu(length - trailer) then
      return not is_mtu(length)
    end
    return nil
  end
  local expected = announced(packet)
  if expected == nil or (length ~= expected and length ~= expected + trailer) then
    return nil
  end
  return length ~= expected
end
