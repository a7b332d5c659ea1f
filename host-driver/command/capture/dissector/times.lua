-- The table of times: for each operation how many, how many bytes, and how long both answers took.

-- The value that so many of a hundred do not exceed; the list is in order.
local function percentile(sorted, of_hundred)
  return sorted[math.max(1, math.ceil(#sorted * of_hundred / 100))]
end

local function microseconds(seconds)
  return seconds and ("%.1f"):format(seconds * 1e6) or "-"
end

local function times_text(times)
  table.sort(times)
  local most = times[#times]
  local p50, p99 = percentile(times, 50), percentile(times, 99)
  return ("%14s%12s%12s"):format(microseconds(p50), microseconds(p99), microseconds(most))
end

-- What the requests of each name came to.
local function rows_of(requests)
  local rows = {}
  for _, request in ipairs(requests) do
    local row = rows[request.name]
    if not row then
      row = { number = 0, bytes = 0, received = {}, persisted = {}, never = 0 }
      rows[request.name] = row
    end
    row.number = row.number + 1
    row.bytes = row.bytes + request.bytes
    if request.received then
      table.insert(row.received, request.received.at - request.at)
    end
    if request.persisted then
      local since = request.operation and request.operation.at or request.at
      table.insert(row.persisted, request.persisted.at - since)
    end
    local is_durable = request.persisted or (request.operation and request.operation.persisted)
    if request.is_persist and not is_durable then
      row.never = row.never + 1
    end
  end
  return rows
end

local HEAD = ("%-16s%8s%14s%14s%12s%12s%14s%12s%12s%13s"):format(
  "operation", "number", "bytes", "received p50", "p99", "max", "durable p50", "p99", "max",
  "not durable"
)

local function print_times()
  local rows, names = rows_of(state.requests), {}
  for name in pairs(rows) do
    names[#names + 1] = name
  end
  table.sort(names)
  print("Perdure: times from the first packet of a request, in µs")
  print(HEAD)
  for _, name in ipairs(names) do
    local row = rows[name]
    local counts = ("%-16s%8d%14d"):format(name, row.number, row.bytes)
    print(counts .. times_text(row.received) .. times_text(row.persisted)
      .. ("%13d"):format(row.never))
  end
end

-- Wireshark keeps a listener only for the sake of its table.
local listener = Listener.new("frame", "udp.port == " .. WIRE.udp.roce)

function listener.draw()
  if perdure.prefs.table then
    print_times()
  end
end
