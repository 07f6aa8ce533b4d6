"""JavaScript in a child: the engine behind five methods, and the prelude with which every run begins.

Runs in the zygote's hardened children. The engine is QuickJS-ng in the package `jsbox`. Another one, such as the
package `quickjs-ng`, needs a constructor and the four methods of `Engine`: bind, module, evaluate and check.

The prelude runs before the customer's code and creates `ctx` and `console`. It is one expression whose names no other
code can reach: it takes its built-ins before the customer's code can replace them, its functions are strict and bound,
errors have no `prepareStackTrace`, and only texts cross the boundary.
"""

import json
import os
import re
import resource
import struct
from collections.abc import Callable
from typing import Any, Final, Never, Protocol

MODULE: Final = "script.js"
PLACE: Final = re.compile(
    r"\b(?:script\.js|check):([1-9]\d{0,8})(?::([1-9]\d{0,8}))?"
)  # "check" is the engine's name at a syntax check
LINE_BYTES: Final = 4 << 10
TEXT_BYTES: Final = 2 << 10
LINE_COST: Final = 16
EXIT_START: Final = 70
"""The exit status of a child that could not be hardened, or whose engine did not start."""
EXIT_ENGINE: Final = 72
"""The exit status of a child whose engine raised an unexpected error."""
EXIT_MEMORY: Final = 71
"""The exit status of a child without the memory for a report."""

PRELUDE: Final = r"""
(async () => {
'use strict';
const host = __host, names = $names, given = $context, budget = $budget, still = $now;
delete globalThis.__host;
const {stringify, parse} = JSON, {freeze, defineProperty, getPrototypeOf, keys, prototype: plain} = Object;
const {apply, construct} = Reflect, text = String, failed = Error, mistaken = TypeError, Time = Date, Later = Promise;
const {isArray} = Array, {isFinite} = Number, bind = Function.prototype.bind, OverLimit = class {}, Unfit = class {};
const slice = String.prototype.slice, whole = String.prototype.toWellFormed;
if (still !== null) {
  const Stopped = function Date(...list) {
    const made = construct(Time, list.length ? list : [still], new.target ?? Time);
    return new.target ? made : text(made);
  };
  const {UTC, parse} = Time, statics = {UTC, parse, now: () => still, prototype: Time.prototype};
  for (const name in statics) defineProperty(Stopped, name, {value: statics[name], writable: name !== 'prototype'});
  defineProperty(Time.prototype, 'constructor', {value: Stopped});
  defineProperty(globalThis, 'Date', {value: Stopped});
}
const clock = Date.now, began = clock();
const own = f => apply(bind, f, [undefined]);
const put = (object, name, value) => defineProperty(object, name, {value, enumerable: true, configurable: true});

// JSON drops or changes some values. Logs show every value. A result may omit undefined values; its objects are not
// examined, which would take longer than writing them. Arguments must be passed unchanged, because a filter without one
// of its fields finds other documents.
const LOG = 0, RESULT = 1, ARGUMENT = 2;
const unfit = (key, value, given) => {
  const kind = typeof value;
  if (kind === 'undefined') return use === ARGUMENT && 'undefined (omit it, or pass null)';
  if (kind === 'function' && key === 'toJSON') return false;
  if (kind === 'function' || kind === 'symbol' || kind === 'bigint') return `a ${kind}`;
  if (kind === 'number') return text(value);
  if (value === null) return given instanceof Time && 'an invalid date';
  const parent = getPrototypeOf(value);
  if (parent === plain || parent === null || keys(value).length) return false;
  if (value instanceof Later) return 'a promise (await it)';
  try { return `a ${text(value.constructor.name)} without fields` } catch (e) { return 'an object without fields' }
};

let left = 0, use = LOG, inside = null;
const measure = function (key, value) {
  left -= 1 + key.length;
  const kind = typeof value;
  if (kind === 'string') left -= value.length;
  if (left < 0) throw new OverLimit();
  if (use === LOG || kind === 'string' || (kind === 'object' && use === RESULT) || kind === 'boolean') return value;
  if (kind === 'number' && isFinite(value)) return value;
  while (inside !== null && inside.value !== this) inside = inside.outer;
  const words = isArray(value) ? false : unfit(key, value, value === null ? this[key] : value);
  if (words) {
    const error = new Unfit();
    let path = key;
    for (let at = inside; at && at.key; at = at.outer) path = `${at.key}.${path}`;
    put(error, 'path', path);
    put(error, 'words', words);
    throw error;
  }
  if (kind === 'object' && value !== null) inside = {key, value, outer: inside};
  return value;
};
const json = (value, limit, purpose) => {
  const before = [left, use, inside];
  left = limit, use = purpose, inside = null;
  try { return stringify(value, measure) } finally { left = before[0], use = before[1], inside = before[2] }
};
const refused = (error, where) => {
  if (!(error instanceof Unfit)) return error;
  const path = apply(slice, error.path, [0, 200]), place = path && where ? `${path} in ${where}` : path || where;
  const refusal = new mistaken(`${place || 'it'} is ${error.words}${where && ': JSON does not have it'}`);
  put(refusal, 'code', 'invalid_argument');
  return refusal;
};

let calls = 0;
const call = (name, list) => {
  let sent = '[', rest = budget.argument_bytes, count = list.length;
  while (count && list[count - 1] === undefined) count--;
  for (let i = 0; i < count; i++) {
    let one;
    try { one = json(list[i], rest, ARGUMENT) }
    catch (e) {
      if (e instanceof OverLimit) host('over', 'argument_bytes', '');
      throw refused(e, `argument ${i + 1} of ctx.${name}`);
    }
    rest -= one.length;
    sent += (i ? ',' : '') + one;
  }
  calls++;
  const reply = parse(host('call', `${name}\n${text(new failed().stack)}`, sent + ']'));
  if (reply.length === 1) return reply[0];
  const error = new failed(reply[1]);
  put(error, 'name', reply[0]);
  put(error, 'code', reply[2]);
  throw error;
};

// The error of a failed call must not be lost if nothing waits for it: the run ends with it. `await`, `catch` and the
// others read `then` of such a promise, because it has another constructor.
const {resolve, reject} = Later, {then} = Later.prototype, unhandled = [];
const Unlike = freeze(defineProperty(function () {}, Symbol.species, {value: Later}));
const failing = error => {
  const promise = apply(reject, Later, [error]), record = {error, handled: false};
  put(unhandled, unhandled.length, record);
  apply(then, promise, [undefined, () => {}]);
  const handle = own((done, lost) => { record.handled = true; return apply(then, promise, [done, lost]) });
  defineProperty(promise, 'constructor', {value: Unlike});
  defineProperty(promise, 'then', {value: handle});
  return promise;
};
const later = name => own((...list) => {
  try { return apply(resolve, Later, [call(name, list)]) } catch (error) { return failing(error) }
});
const atOnce = name => own((...list) => call(name, list));

const shown = value => {
  try {
    if (typeof value === 'string') return value;
    if (value instanceof failed) return `${value.name}: ${value.message}`;
    return json(value, budget.line, LOG) ?? text(value);
  } catch (e) { return '[a value that cannot be shown]' }
};
const logger = level => own((...list) => {
  let line = '';
  for (let i = 0; i < list.length && line.length <= budget.line; i++) line += (i ? ' ' : '') + shown(list[i]);
  host('log', level, apply(whole, apply(slice, line, [0, budget.line]), []));
});

const info = logger('i');
const levels = {log: info, info, warn: logger('w'), error: logger('e'), debug: logger('d')};
put(globalThis, 'console', freeze(levels));
put(globalThis, 'performance', freeze({now: own(() => clock() - began)}));
defineProperty(Error, 'prepareStackTrace', {get: own(() => undefined), set: own(() => {}), configurable: false});

const ctx = {log: info}, tables = [ctx];
const context = parse(given);
for (const name in context) put(ctx, name, context[name]);
for (const [name, awaited] of parse(names)) {
  let table = ctx, at = 0;
  const path = name.split('.');
  for (; at < path.length - 1; at++) {
    if (!Object.hasOwn(table, path[at])) { put(table, path[at], {}); tables.push(table[path[at]]) }
    table = table[path[at]];
  }
  put(table, path[at], awaited ? later(name) : atOnce(name));
}
for (const table of tables) freeze(table);

const {default: main} = await import('script.js');
if (typeof main !== 'function') throw new TypeError('the script has no `export default async function (ctx) {...}`');
const result = await apply(main, undefined, [ctx]);
// Unawaited work of the script continues until it makes no further calls.
for (let quiet = 0, before = calls; quiet < 100; quiet++) {
  await undefined;
  if (calls !== before) before = calls, quiet = 0;
}
for (let i = 0; i < unhandled.length; i++) if (!unhandled[i].handled) throw unhandled[i].error;
host('stage', 'result', '');
try { return json(result === undefined ? null : result, budget.result_bytes, RESULT) }
catch (e) { if (e instanceof OverLimit) host('over', 'result_bytes', ''); throw refused(e, '') }
})()
"""


class Engine(Protocol):
    """The interface of a JavaScript engine for a run."""

    def bind(self, name: str, function: Callable[..., Any]) -> None: ...

    def module(self, name: str, source: str) -> None: ...

    def evaluate(self, code: str) -> Any: ...

    def check(self, source: str) -> None: ...


class ThrownError(Exception):
    """An error of the customer's code. Its texts can have any size and content."""

    def __init__(self, name: str, message: str, stack: str) -> None:
        super().__init__(message)
        self.name, self.message, self.stack = name, message, stack


class QuickJs:
    """QuickJS-ng in `jsbox`. It needs no time limit, because the CPU timer of the process is exact."""

    def __init__(self, memory_bytes: int, value_bytes: int) -> None:
        import jsbox

        self._errors = jsbox.JavaScriptError
        self._runtime = jsbox.Runtime(memory_limit=memory_bytes, max_value_bytes=value_bytes)

    def bind(self, name: str, function: Callable[..., Any]) -> None:
        self._runtime.bind_function(name, function)

    def module(self, name: str, source: str) -> None:
        self._runtime.add_static_module(name, source)

    def evaluate(self, code: str) -> Any:
        try:
            return self._runtime.eval(code)
        except self._errors as error:
            raise ThrownError(str(error.name or ""), str(error.message or ""), str(error.stack or "")) from None

    def check(self, source: str) -> None:
        try:
            self._runtime.check_syntax(source, module=True)
        except self._errors as error:
            raise ThrownError(str(error.name or ""), str(error.message or ""), str(error.stack or "")) from None


class Channel:
    """The run's socket, in the child: plain `read` and `write` on a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, body: bytes) -> None:
        data = memoryview(struct.pack("<I", len(body)) + body)
        while data:
            data = data[os.write(self.descriptor, data) :]

    def receive(self) -> bytes:
        return self._exactly(struct.unpack("<I", self._exactly(4))[0])

    def _exactly(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            part = os.read(self.descriptor, min(left, 1 << 20))
            if not part:  # the supervisor has closed the run
                os._exit(0)
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class Run:
    """One run in its child: the callbacks of the prelude, and the report of the end."""

    def __init__(self, channel: Channel, job: dict[str, Any]) -> None:
        self.channel, self.job, self.limits = channel, job, job["limits"]
        self.log_left = self.limits["log_bytes"]
        self.stage = "source"
        self.began_bytes = used_bytes()

    def execute(self) -> None:
        limits = self.limits
        size = 4 * max(limits["argument_bytes"], limits["result_bytes"]) + (64 << 10)
        engine: Engine = QuickJs(limits["memory_bytes"], size)
        if self.job["mode"] == "check":
            engine.check(self.job["source"])
            self.channel.send(b"Rnull")
            return
        engine.bind("__host", self.host)
        budget = {name: limits[name] for name in ("argument_bytes", "result_bytes")} | {"line": LINE_BYTES}
        prelude = PRELUDE.replace("$budget", json.dumps(budget))  # JSON is a part of JavaScript
        prelude = prelude.replace("$now", json.dumps(self.job["now_ms"]))
        for name in ("names", "context"):
            prelude = prelude.replace(f"${name}", json.dumps(json.dumps(self.job[name])))
        engine.module(MODULE, self.job["source"])
        self.stage = "script"
        self.result(engine.evaluate(prelude))

    def result(self, text: Any) -> None:
        if not isinstance(text, str):
            self.stop("output", "result_json", message="the result is a function or a symbol, which JSON does not have")
        body = text.encode(errors="replace")
        if len(body) > self.limits["result_bytes"]:
            self.over("result_bytes")
        self.channel.send(b"R" + body)

    def host(self, what: str, name: str, text: str) -> str:
        """The callback of the prelude: a log line, a host call, an exceeded limit, or a new stage."""
        if what == "call":
            return self.call(name, text)
        if what == "log":
            self.log(name, text)
        elif what == "over":
            self.over(name)
        else:
            self.stage = name
        return ""

    def log(self, level: str, text: str) -> None:
        if self.log_left < 0:
            return
        body = clean(text, LINE_BYTES).encode()
        self.channel.send(b"L" + level.encode() + body)
        self.log_left -= len(body) + LINE_COST

    def call(self, said: str, arguments: str) -> str:
        name, _, stack = said.partition("\n")
        place = PLACE.search(stack)
        at = "" if place is None else "@" + ":".join(part for part in place.groups() if part)
        body = arguments.encode(errors="replace")
        if len(body) > self.limits["argument_bytes"]:
            self.over("argument_bytes")
        self.channel.send(b"C" + (name + at).encode() + b"\0" + body)
        reply = self.channel.receive()
        if reply[:1] == b"V":
            return f"[{reply[1:].decode()}]"
        error = json.loads(reply[1:])
        return json.dumps([error["name"], error["message"], error["code"]])

    def over(self, limit: str) -> Never:
        figure = self.limits[limit]
        outcome = "output" if limit == "result_bytes" else "limit"
        what = "the result has" if limit == "result_bytes" else "the arguments of a host function have"
        self.stop(outcome, limit, message=f"{what} more than {figure} bytes")

    def stop(self, outcome: str, limit: str | None, name: str = "", message: str = "", stack: str = "") -> Never:
        """Report the end of the run, and exit."""
        place = PLACE.search(stack)
        line, column = (int(at) if at else None for at in place.groups()) if place else (None, None)
        said = {
            "outcome": outcome, "limit": limit, "name": clean(name, 200), "message": clean(message, TEXT_BYTES),
            "stack": clean("\n".join(part.strip() for part in stack.splitlines() if PLACE.search(part)), LINE_BYTES),
            "line": line, "column": column,
        }  # fmt: skip
        self.channel.send(b"E" + json.dumps(said).encode())
        os._exit(0)

    def unfit(self, message: str) -> Never:
        """End the run because of a value that the engine cannot convert, such as NUL in the source, or a large text."""
        if self.stage == "source":
            self.stop("error", None, "SyntaxError", message)
        if self.stage == "result":
            self.stop("output", "result_bytes", message=message)
        self.stop("limit", "argument_bytes", message=message)

    def thrown(self, error: ThrownError) -> Never:
        """End the run with an error of the customer's code."""
        exhausted = error.name == "InternalError" and "out of memory" in error.message
        if exhausted or (error.message == "null" and not error.stack and self.short_of_memory()):
            self.stop("memory", "memory_bytes", error.name, "the script needs more memory than it may use", error.stack)
        if self.stage == "result":
            self.stop("output", "result_json", error.name, f"the result is not JSON: {error.message}", error.stack)
        message = error.message
        if "promise never settled" in message and not error.stack:
            message = "the script awaits a promise that is never settled"
        self.stop("error", None, error.name or "Error", message, error.stack)

    def short_of_memory(self) -> bool:
        """Whether an error without a value is probably an out-of-memory error of the engine."""
        limit: int = self.limits["memory_bytes"]
        return used_bytes() - self.began_bytes > limit // 2


def used_bytes() -> int:
    """The peak memory of this process."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1_024


def clean(text: str, size: int) -> str:
    """The beginning of a text that UTF-8 can encode, at most `size` bytes."""
    return text[:size].encode(errors="replace")[:size].decode(errors="ignore")


def serve(descriptor: int) -> Never:
    """The main function of a child: read the job, run it, report the end, exit."""
    channel = Channel(descriptor)
    try:
        job = json.loads(channel.receive()[1:])
        run = Run(channel, job)
        try:
            run.execute()
        except ThrownError as error:
            run.thrown(error)
        except MemoryError:
            run.stop("memory", "memory_bytes", message="the script needs more memory than it may use")
        except (ValueError, TypeError) as error:  # a value that cannot cross the boundary
            run.unfit(str(error))
    except MemoryError:
        os._exit(EXIT_MEMORY)
    except BaseException:  # a panic of the engine; a traceback would need files
        os._exit(EXIT_ENGINE)
    os._exit(0)
