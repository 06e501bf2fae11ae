-- Wireshark dissector for Corelog and Apache Iggy 0.11: batches in the frames of Iggy's TCP protocol
-- (port 8090, or "Decode As" iggy), and raw batches in captures of link type USER0.
--
--   wireshark -X lua_script:corelog.lua capture.pcapng
--   tshark -X lua_script:corelog.lua -r capture.pcapng -Y 'corelog.batch.base_offset == 41'
--
-- Made by scripts/dissectors.sh from the field tables of the crate corelog-format. Do not edit.

local BATCH_LEN = 256
local BATCH = {
  { at = 0, size = 8, name = "partition_id", add = "add_le",
    field = ProtoField.uint64("corelog.batch.partition_id", "partition_id", base.DEC, nil, nil, "stamped by the owner; producers send zero") },
  { at = 8, size = 8, name = "base_offset", add = "add_le",
    field = ProtoField.uint64("corelog.batch.base_offset", "base_offset", base.DEC, nil, nil, "stamped by the owner; producers send zero") },
  { at = 16, size = 8, name = "base_timestamp", add = "add_le",
    field = ProtoField.uint64("corelog.batch.base_timestamp", "base_timestamp", base.DEC, nil, nil, "microseconds, stamped by the owner; producers send zero") },
  { at = 24, size = 8, name = "origin_timestamp", add = "add_le",
    field = ProtoField.uint64("corelog.batch.origin_timestamp", "origin_timestamp", base.DEC, nil, nil, "microseconds, the earliest origin time among the messages") },
  { at = 32, size = 8, name = "batch_length", add = "add_le",
    field = ProtoField.uint64("corelog.batch.batch_length", "batch_length", base.DEC, nil, nil, "256 + the frames' bytes, at most 64 MiB") },
  { at = 40, size = 8, name = "batch_checksum", add = "add_le",
    field = ProtoField.uint64("corelog.batch.batch_checksum", "batch_checksum", base.HEX, nil, nil, "XXH3-64 of bytes 0..40, bytes 48..52 and each frame's first 8 bytes") },
  { at = 48, size = 4, name = "message_count", add = "add_le",
    field = ProtoField.uint32("corelog.batch.message_count", "message_count", base.DEC, nil, nil, "frames in the batch, at least 1") },
  { at = 52, size = 204, name = "reserved", add = "add",
    field = ProtoField.bytes("corelog.batch.reserved", "reserved", base.NONE, "zero") },
}

local FRAME_LEN = 48
local FRAME = {
  { at = 0, size = 8, name = "checksum", add = "add_le",
    field = ProtoField.uint64("corelog.message.checksum", "checksum", base.HEX, nil, nil, "XXH3-64 of the frame from byte 8 to its end: header rest, payload, user headers") },
  { at = 8, size = 16, name = "id", add = "add",
    field = ProtoField.bytes("corelog.message.id", "id", base.NONE, "chosen by the producer, 0 included") },
  { at = 24, size = 4, name = "offset_delta", add = "add_le",
    field = ProtoField.uint32("corelog.message.offset_delta", "offset_delta", base.DEC, nil, nil, "offset = base_offset + offset_delta; the frame's index as produced") },
  { at = 28, size = 4, name = "timestamp_delta", add = "add_le",
    field = ProtoField.uint32("corelog.message.timestamp_delta", "timestamp_delta", base.DEC, nil, nil, "microseconds; producer time = origin_timestamp + timestamp_delta") },
  { at = 32, size = 4, name = "user_headers_length", add = "add_le",
    field = ProtoField.uint32("corelog.message.user_headers_length", "user_headers_length", base.DEC, nil, nil, "bytes of the user headers, after the payload") },
  { at = 36, size = 4, name = "payload_length", add = "add_le",
    field = ProtoField.uint32("corelog.message.payload_length", "payload_length", base.DEC, nil, nil, "bytes of the payload, after this header") },
  { at = 40, size = 8, name = "reserved", add = "add_le",
    field = ProtoField.uint64("corelog.message.reserved", "reserved", base.DEC, nil, nil, "zero") },
}

local KINDS = {
  [1] = "raw",
  [2] = "string",
  [3] = "bool",
  [4] = "int8",
  [5] = "int16",
  [6] = "int32",
  [7] = "int64",
  [8] = "int128",
  [9] = "uint8",
  [10] = "uint16",
  [11] = "uint32",
  [12] = "uint64",
  [13] = "uint128",
  [14] = "float32",
  [15] = "float64",
}

local corelog = Proto("corelog", "Corelog batch")
local iggy = Proto("iggy", "Apache Iggy")

local header_key = ProtoField.string("corelog.user_header.key", "key")
local header_kind = ProtoField.uint8("corelog.user_header.kind", "kind", base.DEC, KINDS)
local header_value = ProtoField.bytes("corelog.user_header.value", "value")
local header_text = ProtoField.string("corelog.user_header.text", "text")
local payload = ProtoField.bytes("corelog.message.payload", "payload")
local message_offset = ProtoField.uint64("corelog.message.offset", "offset (base_offset + offset_delta)")
local malformed = ProtoExpert.new("corelog.malformed", "not a batch", expert.group.MALFORMED,
  expert.severity.ERROR)

local fields = { header_key, header_kind, header_value, header_text, payload, message_offset }
for _, record in ipairs({ BATCH, FRAME }) do
  for _, one in ipairs(record) do fields[#fields + 1] = one.field end
end
corelog.fields = fields
corelog.experts = { malformed }

-- The bytes of a field of the record that begins at `at`.
local function range(tvb, at, record, name)
  for _, one in ipairs(record) do
    if one.name == name then return tvb(at + one.at, one.size) end
  end
  error("no field " .. name)
end

local function add_fields(tree, tvb, at, record)
  for _, one in ipairs(record) do tree[one.add](tree, one.field, tvb(at + one.at, one.size)) end
end

-- One typed value, [kind][length u32][data]: the range of its data and what follows it; nil where
-- it does not fit.
local function typed(tvb, at, stop)
  if at + 5 > stop then return nil end
  local length = tvb(at + 1, 4):le_uint()
  if at + 5 + length > stop or length == 0 then return nil end
  return tvb(at + 5, length), at + 5 + length
end

local function user_headers(tree, tvb, at, length)
  local stop = at + length
  local block = tree:add(tvb(at, length), "user headers")
  while at < stop do
    local key, behind_key = typed(tvb, at, stop)
    local value, behind = nil, nil
    if key then value, behind = typed(tvb, behind_key, stop) end
    if not value then
      block:add_proto_expert_info(malformed, "user headers break their structure")
      return
    end
    local kind = tvb(behind_key, 1)
    local name = key:string(ENC_UTF_8)
    local pair = block:add(tvb(at, behind - at), name)
    pair:add(header_key, key, name)
    pair:add(header_kind, kind)
    if kind:uint() == 2 then
      pair:add(header_text, value, value:string(ENC_UTF_8))
    else
      pair:add(header_value, value)
    end
    at = behind
  end
end

local function message(tree, tvb, at, stop, base)
  if at + FRAME_LEN > stop then return nil end
  local headers_length = range(tvb, at, FRAME, "user_headers_length"):le_uint()
  local payload_length = range(tvb, at, FRAME, "payload_length"):le_uint()
  local length = FRAME_LEN + payload_length + headers_length
  if at + length > stop then return nil end
  local offset = base + range(tvb, at, FRAME, "offset_delta"):le_uint()
  local node = tree:add(tvb(at, length), "message " .. tostring(offset))
  node:add(message_offset, tvb(at, FRAME_LEN), offset):set_generated()
  add_fields(node, tvb, at, FRAME)
  if payload_length > 0 then node:add(payload, tvb(at + FRAME_LEN, payload_length)) end
  if headers_length > 0 then
    user_headers(node, tvb, at + FRAME_LEN + payload_length, headers_length)
  end
  return at + length
end

-- One batch at `at`; the position behind it, or nil where there is none.
local function batch(tree, tvb, at)
  local left = tvb:len() - at
  if left < BATCH_LEN then return nil end
  local length = range(tvb, at, BATCH, "batch_length"):le_uint64():tonumber()
  local count = range(tvb, at, BATCH, "message_count"):le_uint()
  if length < BATCH_LEN + FRAME_LEN or length > left then return nil end
  local base = range(tvb, at, BATCH, "base_offset"):le_uint64()
  local title = string.format("batch, offset %s, %d messages", tostring(base), count)
  local node = tree:add(corelog, tvb(at, length), title)
  add_fields(node, tvb, at, BATCH)
  local next, stop = at + BATCH_LEN, at + length
  for _ = 1, count do
    next = message(node, tvb, next, stop, base)
    if not next then break end
  end
  if next ~= stop then
    node:add_proto_expert_info(malformed, "the frames do not end where the batch does")
  end
  return stop
end

local function batches(tree, tvb, at)
  while at < tvb:len() do
    local behind = batch(tree, tvb, at)
    if not behind then
      tree:add(corelog, tvb(at), "no batch"):add_proto_expert_info(malformed)
      return
    end
    at = behind
  end
end

function corelog.dissector(tvb, pinfo, tree)
  pinfo.cols.protocol = "CORELOG"
  batches(tree, tvb, 0)
end

-- Iggy's frames: a header of 256 bytes, then the body.
local HEADER_LEN = 256
local COMMANDS = { [5] = "request", [8] = "reply", [13] = "eviction" }
local OPERATIONS = {
  [1] = "Register", [2] = "NonReplicated", [3] = "Logout", [128] = "CreateStream",
  [129] = "UpdateStream", [130] = "DeleteStream", [131] = "PurgeStream", [132] = "CreateTopic",
  [133] = "UpdateTopic", [134] = "DeleteTopic", [135] = "PurgeTopic", [136] = "CreatePartitions",
  [137] = "DeletePartitions", [138] = "DeleteSegments", [139] = "CreateConsumerGroup",
  [140] = "DeleteConsumerGroup", [148] = "JoinConsumerGroup", [149] = "LeaveConsumerGroup",
  [160] = "SendMessages", [161] = "StoreConsumerOffset", [162] = "DeleteConsumerOffset",
}
local CODES = {
  [1] = "PING", [10] = "GET_STATS", [12] = "GET_CLUSTER_METADATA", [100] = "POLL_MESSAGES",
  [120] = "GET_CONSUMER_OFFSET", [200] = "GET_STREAM", [201] = "GET_STREAMS", [300] = "GET_TOPIC",
  [301] = "GET_TOPICS", [600] = "GET_CONSUMER_GROUP", [601] = "GET_CONSUMER_GROUPS",
}
local SEND, READ, POLL = 160, 2, 100

local f = iggy.fields
f.size = ProtoField.uint32("iggy.size", "size")
f.command = ProtoField.uint8("iggy.command", "command", base.DEC, COMMANDS)
f.operation = ProtoField.uint8("iggy.operation", "operation", base.DEC, OPERATIONS)
f.code = ProtoField.uint32("iggy.code", "code", base.DEC, CODES)
f.request = ProtoField.uint64("iggy.request", "request")
f.session = ProtoField.uint64("iggy.session", "session")
f.status = ProtoField.uint32("iggy.status", "status")
f.reason = ProtoField.uint8("iggy.reason", "reason")
f.body = ProtoField.bytes("iggy.body", "body")
f.stream = ProtoField.string("iggy.stream", "stream")
f.topic = ProtoField.string("iggy.topic", "topic")
f.consumer = ProtoField.string("iggy.consumer", "consumer")
f.partitioning = ProtoField.string("iggy.partitioning", "partitioning")
f.partition = ProtoField.uint32("iggy.partition", "partition")
f.strategy = ProtoField.uint8("iggy.strategy", "strategy", base.DEC,
  { "offset", "timestamp", "first", "last", "next" })
f.strategy_value = ProtoField.uint64("iggy.strategy_value", "value")
f.count = ProtoField.uint32("iggy.count", "messages")
f.auto_commit = ProtoField.bool("iggy.auto_commit", "auto_commit")
f.current_offset = ProtoField.uint64("iggy.current_offset", "current_offset")

local tcp_stream = Field.new("tcp.stream")
-- What each request asked for, by connection and number: a reply does not say it again.
local asked = {}

local function key_of(number)
  return tostring(tcp_stream()) .. "/" .. tostring(number)
end

-- [kind][length][value]: its text and what follows it.
local function identifier(tvb, at)
  local kind, length = tvb(at, 1):uint(), tvb(at + 1, 1):uint()
  local value = tvb(at + 2, length)
  if kind == 1 and length == 4 then return tostring(value:le_uint()), at + 2 + length end
  return value:string(ENC_UTF_8), at + 2 + length
end

local function add_identifier(tree, field, tvb, at)
  local text, behind = identifier(tvb, at)
  tree:add(field, tvb(at, behind - at), text)
  return behind
end

local function partitioning(tree, tvb, at)
  local kind, length = tvb(at, 1):uint(), tvb(at + 1, 1):uint()
  local words = { "balanced", "partition", "messages key" }
  local text = words[kind] or ("kind " .. kind)
  if kind == 2 and length == 4 then text = text .. " " .. tvb(at + 2, 4):le_uint() end
  if kind == 3 then text = text .. " " .. tostring(tvb(at + 2, length):bytes()) end
  tree:add(f.partitioning, tvb(at, 2 + length), text)
  return at + 2 + length
end

-- [metadata length][stream][topic][partitioning][messages][batch]
local function send(tree, tvb)
  local at = 4
  at = add_identifier(tree, f.stream, tvb, at)
  at = add_identifier(tree, f.topic, tvb, at)
  at = partitioning(tree, tvb, at)
  tree:add_le(f.count, tvb(at, 4))
  batches(tree, tvb, 4 + tvb(0, 4):le_uint())
end

-- [consumer][stream][topic][partition?][strategy][count][auto_commit]
local function poll(tree, tvb)
  local kind = tvb(0, 1):uint() == 2 and "group " or "consumer "
  local text, at = identifier(tvb, 1)
  tree:add(f.consumer, tvb(0, at), kind .. text)
  at = add_identifier(tree, f.stream, tvb, at)
  at = add_identifier(tree, f.topic, tvb, at)
  if tvb(at, 1):uint() == 1 then tree:add_le(f.partition, tvb(at + 1, 4)) end
  tree:add(f.strategy, tvb(at + 5, 1))
  tree:add_le(f.strategy_value, tvb(at + 6, 8))
  tree:add_le(f.count, tvb(at + 14, 4))
  tree:add(f.auto_commit, tvb(at + 18, 1))
end

-- [partition][current offset][messages][batches]
local function polled(tree, tvb)
  tree:add_le(f.partition, tvb(0, 4))
  tree:add_le(f.current_offset, tvb(4, 8))
  tree:add_le(f.count, tvb(12, 4))
  batches(tree, tvb, 16)
end

local function body(tree, tvb, dissect)
  local node = tree:add(f.body, tvb())
  if not dissect then return end
  local fine, why = pcall(dissect, tree, tvb)
  if not fine then node:add_proto_expert_info(malformed, "the body ends early: " .. why) end
end

local function frame(tvb, pinfo, root)
  pinfo.cols.protocol = "IGGY"
  local command = tvb(60, 1):uint()
  local tree = root:add(iggy, tvb(), "Apache Iggy, " .. (COMMANDS[command] or "unknown"))
  tree:add_le(f.size, tvb(48, 4))
  tree:add(f.command, tvb(60, 1))
  local rest = tvb:len() > HEADER_LEN and tvb(HEADER_LEN):tvb() or nil
  local what, dissect
  if command == 5 then
    local number, operation = tvb(168, 8):le_uint64(), tvb(176, 1):uint()
    local code = operation == READ and tvb(196, 4):le_uint() or nil
    tree:add_le(f.request, tvb(168, 8))
    tree:add(f.operation, tvb(176, 1))
    tree:add_le(f.session, tvb(184, 8))
    if code then tree:add_le(f.code, tvb(196, 4)) end
    asked[key_of(number)] = { operation = operation, code = code }
    what = code and CODES[code] or OPERATIONS[operation]
    dissect = operation == SEND and send or (code == POLL and poll) or nil
  elseif command == 8 then
    local before = asked[key_of(tvb(200, 8):le_uint64())]
    tree:add_le(f.request, tvb(200, 8))
    tree:add(f.operation, tvb(208, 1))
    tree:add_le(f.status, tvb(216, 4))
    if before and before.code then
      tree:add(f.code, tvb(208, 1), before.code):set_generated()
      what = CODES[before.code]
      if before.code == POLL and tvb(216, 4):le_uint() == 0 then dissect = polled end
    end
    what = what or OPERATIONS[tvb(208, 1):uint()]
  elseif command == 13 then
    tree:add(f.reason, tvb(255, 1))
  end
  pinfo.cols.info:append(" " .. (COMMANDS[command] or "frame") .. " " .. (what or ""))
  if rest then body(tree, rest, dissect) end
  return tvb:len()
end

local function frame_length(tvb, _, at)
  -- A shorter one could not hold its own header: skip that far and try again.
  return math.max(tvb(at + 48, 4):le_uint(), HEADER_LEN)
end

function iggy.dissector(tvb, pinfo, tree)
  pinfo.cols.info:set("")
  dissect_tcp_pdus(tvb, tree, 52, frame_length, frame)
end

function iggy.init()
  asked = {}
end

DissectorTable.get("tcp.port"):add(8090, iggy)
DissectorTable.get("wtap_encap"):add(wtap.USER0, corelog)
