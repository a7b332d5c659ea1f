-- The invariant CRC, two bytes at a time: Lua has no loop that is faster.

-- The register behind the eight bytes of ones that stand for the absent local route header.
local START = 0xdebb20e3
local POLYNOMIAL = 0xedb88320
local WORD = 2 ^ 32

local function xor(a, b)
  return bit.bxor(a, b) % WORD
end

-- The register after two bytes, and after four of which the last two are zeros; made when needed.
local ONE_STEP, TWO_STEPS

local function make_tables()
  local bytes = {}
  for i = 0, 255 do
    local register = i
    for _ = 1, 8 do
      local odd = register % 2 == 1
      register = math.floor(register / 2)
      if odd then
        register = xor(register, POLYNOMIAL)
      end
    end
    bytes[i] = register
  end
  local function step(register)
    return xor(bytes[register % 256], math.floor(register / 256))
  end
  ONE_STEP, TWO_STEPS = {}, {}
  for i = 0, 65535 do
    ONE_STEP[i] = step(step(i))
    TWO_STEPS[i] = step(step(ONE_STEP[i]))
  end
end

local WORDS = 16
local FORMAT = "<" .. ("I4"):rep(WORDS)

-- The register after that text, whose length is a multiple of four.
local function advance(register, text)
  local at = 1
  while at <= #text do
    local left = math.min(WORDS, (#text + 1 - at) / 4)
    local format = left == WORDS and FORMAT or "<" .. ("I4"):rep(left)
    local words = { Struct.unpack(format, text, at) }
    for i = 1, left do
      local mixed = xor(register, words[i])
      local low = mixed % 65536
      register = xor(TWO_STEPS[low], ONE_STEP[(mixed - low) / 65536])
    end
    at = at + 4 * left
  end
  return register
end

-- What counts as ones, as routers may change it: offsets in the headers of IP.
local CHANGED = { ipv4 = { 1, 8, 10, 11 }, ipv6 = { 1, 2, 3, 7 } }

-- The headers from IP to BTH, with ones for what routers change.
local function masked_headers(tvb, packet)
  local count = packet.bth + WIRE.bth.bytes - packet.ip
  local bytes = { tvb:raw(packet.ip, count):byte(1, count) }
  for _, at in ipairs(packet.is_ipv6 and CHANGED.ipv6 or CHANGED.ipv4) do
    bytes[at + 1] = 0xff
  end
  if packet.is_ipv6 then
    bytes[1] = 0x6f
  end
  local checksum = packet.udp - packet.ip + 6
  bytes[checksum + 1], bytes[checksum + 2] = 0xff, 0xff
  bytes[packet.bth - packet.ip + WIRE.bth.congestion + 1] = 0xff
  return string.char((table.unpack or unpack)(bytes))
end

local function complement(register)
  return WORD - 1 - register
end

-- How the ICRC of the packet is: one of ICRC.
local function icrc_status(tvb, packet)
  if packet.icrc_at + WIRE.icrc.bytes > tvb:len() then
    return ICRC.cut
  end
  if not ONE_STEP then
    make_tables()
  end
  local behind = packet.bth + WIRE.bth.bytes
  local register = advance(START, masked_headers(tvb, packet))
  if packet.icrc_at > behind then
    register = advance(register, tvb:raw(behind, packet.icrc_at - behind))
  end
  local found = tvb(packet.icrc_at, WIRE.icrc.bytes):le_uint()
  if found == complement(register) then
    return ICRC.good
  end
  -- Linux goes on over BTH and what is behind it, as they are.
  if packet.opcode == WIRE.flush.opcode then
    local again = advance(register, tvb:raw(packet.bth, packet.icrc_at - packet.bth))
    if found == complement(again) then
      return ICRC.linux_flush
    end
  end
  return ICRC.bad
end
