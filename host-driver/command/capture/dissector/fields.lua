-- The protocol, its fields and its preferences.

local perdure = Proto("perdure", "Perdure")

perdure.prefs.check_icrc = Pref.bool("Check the ICRC", true, "Of every frame, which takes time")
perdure.prefs.table = Pref.bool("Print the table of times", false, "At the end, on standard output")

-- Every field by its name without "perdure." in front.
local FIELDS = {}

local function declare(name, field)
  FIELDS[name] = field
end

-- The fields that headers have.
for _, one in ipairs(WIRE.fields) do
  local abbreviation = "perdure." .. one.name
  if one.type == "bool" then
    declare(one.name, ProtoField.bool(abbreviation, one.label))
  elseif one.type == "string" then
    declare(one.name, ProtoField.string(abbreviation, one.label))
  else
    local shown = one.hex and base.HEX or base.DEC
    declare(one.name, ProtoField[one.type](abbreviation, one.label, shown, one.names))
  end
end

local ICRC = { good = 1, bad = 2, linux_flush = 3, cut = 4 }
local ICRC_NAMES = {
  [ICRC.good] = "good",
  [ICRC.bad] = "bad",
  [ICRC.linux_flush] = "good, as Linux computes it for FLUSH",
  [ICRC.cut] = "not in the capture",
}

-- What is not told by one header alone.
declare("opcode", ProtoField.uint8("perdure.opcode", "Opcode", base.HEX, WIRE.opcode_names))
declare("qp", ProtoField.uint24("perdure.qp", "Queue pair", base.HEX))
declare("psn", ProtoField.uint24("perdure.psn", "PSN", base.DEC))
declare("payload_length", ProtoField.uint32("perdure.payload_length", "Payload, bytes", base.DEC))
declare("slot", ProtoField.uint32("perdure.slot", "Slot", base.DEC))
declare("offset", ProtoField.uint32("perdure.offset", "Offset in the slot", base.DEC))
declare("expect", ProtoField.uint64("perdure.batch.expect", "Sequence expected", base.DEC))
declare("guard", ProtoField.uint32("perdure.guard", "Guard of the data", base.HEX))
declare("nak", ProtoField.string("perdure.nak", "Refused"))
declare("bitmap", ProtoField.bytes("perdure.batch.bitmap", "Bitmap of the durable records"))
declare("durable", ProtoField.uint32("perdure.batch.durable", "Records that are durable", base.DEC))
declare("icrc", ProtoField.uint32("perdure.icrc", "ICRC", base.HEX))
declare("icrc.status", ProtoField.uint8("perdure.icrc.status", "ICRC is", base.DEC, ICRC_NAMES))
declare("tag", ProtoField.bytes("perdure.tag", "Tag"))
declare("tag.counter", ProtoField.uint64("perdure.tag.counter", "Counter", base.DEC))
declare("sealed", ProtoField.bytes("perdure.sealed", "Sealed body"))
declare("sealed.session", ProtoField.uint32("perdure.sealed.session", "Session", base.HEX))
declare("sealed.counter", ProtoField.uint64("perdure.sealed.counter", "Number in it", base.DEC))

-- What belongs together.
local function framenum(name, label, kind)
  declare(name, ProtoField.framenum("perdure." .. name, label, base.NONE, kind))
end
framenum("request_in", "Request in", frametype.REQUEST)
framenum("received_in", "Received in", frametype.ACK)
framenum("persisted_in", "Durable in", frametype.ACK)
framenum("refused_in", "Refused in", frametype.ACK)
framenum("repeats", "Repeats what was sent in", frametype.RETRANS_PREV)

local function time(name, label)
  declare(name, ProtoField.relative_time("perdure." .. name, label))
end
time("time_to_received", "Time to received")
time("time_to_persisted", "Time to durable")

local all = {}
for _, field in pairs(FIELDS) do
  all[#all + 1] = field
end
perdure.fields = all

local EXPERTS = {
  never = ProtoExpert.new(
    "perdure.never_durable",
    "Sent, and in this capture never acknowledged as durable",
    expert.group.SEQUENCE,
    expert.severity.WARN
  ),
  repeated = ProtoExpert.new(
    "perdure.repeated",
    "Sent before",
    expert.group.SEQUENCE,
    expert.severity.NOTE
  ),
  refused = ProtoExpert.new(
    "perdure.refused",
    "Refused",
    expert.group.RESPONSE_CODE,
    expert.severity.WARN
  ),
  icrc = ProtoExpert.new(
    "perdure.icrc.bad",
    "The ICRC is wrong",
    expert.group.CHECKSUM,
    expert.severity.ERROR
  ),
}
perdure.experts = { EXPERTS.never, EXPERTS.repeated, EXPERTS.refused, EXPERTS.icrc }
