-- What is known of a capture while it is read for the first time: flows, and which two of them are
-- one connection. A flow is what goes from one address to one queue pair of another.

-- One for each capture; made new when Wireshark begins again.
local state

local function forget_all()
  state = {
    -- By the number of the frame: what was found out about it.
    frames = {},
    -- By their keys, and as lists by the two addresses.
    flows = {},
    between = {},
    -- Requests in the order of their first packets.
    requests = {},
    -- Operations that are to be durable, by client and operation id.
    operations = {},
    -- Names of regions by address of the card and key; calls and connections under way.
    regions = {},
    calls = {},
    connecting = {},
  }
end
forget_all()

local PSNS = 2 ^ 24

-- Whether a PSN is behind another, or is it: by the half of the numbers that lies behind it.
local function is_behind(psn, other)
  return (other - psn) % PSNS < PSNS / 2
end

local function flow_key(from, to, qp)
  return from .. ">" .. to .. "#" .. qp
end

-- The flow of a packet, made where there is none.
local function flow_to(from, to, qp)
  local key = flow_key(from, to, qp)
  local flow = state.flows[key]
  if not flow then
    -- `waiting`: requests that wait for an answer. `by_psn`: the request of each packet.
    flow = { key = key, from = from, to = to, waiting = {}, by_psn = {} }
    state.flows[key] = flow
    local ends = from .. ">" .. to
    state.between[ends] = state.between[ends] or {}
    table.insert(state.between[ends], flow)
  end
  return flow
end

-- A queue pair begins: what an earlier one of that number has said is over.
local function begin_flow(from, to, qp)
  local old = state.flows[flow_key(from, to, qp)]
  if old then
    old.is_over = true
    state.flows[old.key] = nil
  end
  return flow_to(from, to, qp)
end

local function pair(one, other)
  one.partner, other.partner = other, one
  local client = one.client or other.client
  one.client, other.client = client, client
end

-- A connection as its making told it: the client's queue pair, the card's, and who the client is.
local function connect(client, card, client_qp, card_qp, client_id)
  local there = begin_flow(client, card, card_qp)
  local back = begin_flow(card, client, client_qp)
  there.client = client_id
  pair(there, back)
end

-- Whether a request of the flow waits for an answer with that PSN.
local function waits_for(flow, psn)
  for _, request in ipairs(flow.waiting) do
    if is_behind(request.psn, psn) and is_behind(psn, request.last) then
      return true
    end
  end
  return false
end

-- The flow whose requests the packets of `flow` answer. Where nothing has told, it is the one flow
-- that waits for such an answer; of several none.
local function answered_flow(flow, psn)
  if flow.partner then
    return flow.partner
  end
  local found
  for _, one in ipairs(state.between[flow.to .. ">" .. flow.from] or {}) do
    if not one.partner and not one.is_over and waits_for(one, psn) then
      if found then
        return nil
      end
      found = one
    end
  end
  if found then
    pair(flow, found)
  end
  return found
end
