"""Hostile programs: what customers, or whoever has their password, may upload.

Each is a name, a kind and a body. Of JavaScript, a body stands in `async (api) => {...}` with `api.log`, `api.get`,
`api.insert` and `ctx`; of Python, in `def main(ctx)`, with `get` and `insert`. The kinds:

    stop     it must not end by itself with a result, unless the engine is clever
    ok       it looks for a way out; its result is the list of what it has found, which must be empty
    any      it may end in any way that customers can cause
    another  the outcome, and the limit after a colon
"""

# ruff: noqa: E501 - programs are as long as they are
from typing import Final

JAVASCRIPT: Final[list[tuple[str, str, str]]] = [
    ("loop", "stop", "while(true){}"),
    ("loop-catch", "stop", "for(;;){ try { while(true){} } catch(e){} }"),
    ("loop-finally", "stop", "function f(){ try { while(true){} } finally { f() } } f()"),
    ("regex-nested", "stop", "return /^(a+)+$/.test('a'.repeat(38)+'!')"),
    ("regex-backref", "stop", "return /^(.*a){25}\\1$/.test('a'.repeat(60)+'b')"),
    ("regex-lookbehind", "stop", "return /(?<=(x+x+)+y)z/.test('x'.repeat(40)+'z')"),
    ("bigint-square", "stop", "let x=3n; for(;;) x=x*x"),
    ("bigint-pow", "stop", "return String((2n**200000n)**5000n).length"),
    ("bigint-tostring", "stop", "let x=(1n<<30000000n)-1n; return x.toString().length"),
    ("sort-native", "stop", "let a=[]; for(let i=0;i<3e6;i++) a.push((i*7919)%1000003); for(;;) a.sort()"),
    ("fill-sparse", "stop", "return new Array(4294967295).fill(0).length"),
    ("arraylike-join", "stop", "return Array.prototype.join.call({length:2**40},'x').length"),
    ("indexof-arraylike", "stop", "return Array.prototype.indexOf.call({length:2**53-1}, 1)"),
    ("splice-loop", "stop", "let a=new Array(3000000).fill(1); for(;;){ a.splice(0,1); a.push(1) }"),
    ("json-wide", "stop", "let o={}; for(let i=0;i<50;i++){ o={a:o,b:o} } return JSON.stringify(o).length"),
    ("toprimitive", "stop", "return `${{toString(){ for(;;); }}}`"),
    ("generator", "stop", "return [...function*(){ while(1) yield 1 }()].length"),
    ("microtask-then", "stop", "function f(){ return Promise.resolve().then(f) } return await f()"),
    ("microtask-await", "stop", "for(;;) await null"),
    ("thenable", "stop", "const o={then(r){ r(o) }}; return await o"),
    ("microtask-after", "stop", "(function f(){ Promise.resolve().then(f) })(); return 1"),
    ("never-settles", "any", "return await new Promise(()=>{})"),
    ("atomics-wait", "any", "return Atomics.wait(new Int32Array(new SharedArrayBuffer(8)),0,0)"),
    ("string-repeat-1g", "any", "return 'a'.repeat(2**30).length"),
    ("string-double", "stop", "let s='a'; for(;;) s+=s"),
    ("string-flat", "stop", "let a=[]; for(;;){ a.push('x'.repeat(1<<20)+a.length) }"),
    ("array-grow", "stop", "let a=[]; for(;;) a.push(new Array(1000).fill(1.5))"),
    ("object-grow", "stop", "let o={}; for(let i=0;;i++) o['k'+i]={i}"),
    (
        "arraybuffer",
        "stop",
        "let b=[]; for(;;){ const u=new Uint8Array(1<<24); for(let i=0;i<u.length;i+=4096)u[i]=1; b.push(u) }",
    ),
    ("arraybuffer-8g", "any", "return new ArrayBuffer(2**33).byteLength"),
    ("replace-blowup", "stop", "return 'a'.repeat(1e5).replace(/a/g,'b'.repeat(1e5)).length"),
    ("padstart", "any", "return 'x'.padStart(2**29,'ab').length"),
    (
        "wasm-memory",
        "any",
        "const m=new WebAssembly.Memory({initial:32768}); const u=new Uint8Array(m.buffer); for(let i=0;i<u.length;i+=4096)u[i]=1; return u.length",
    ),
    ("closure-leak", "stop", "let f=()=>0; for(;;){ const g=f, pad=new Array(100).fill(0); f=()=>g()+pad.length }"),
    ("map-grow", "stop", "const m=new Map(); for(let i=0;;i++) m.set({},i)"),
    ("recursion", "any", "function f(){ return f()+1 } return f()"),
    ("recursion-native", "any", "const a=[]; a[0]=a; function g(x){ return [x].map(g) } return g(1)"),
    ("json-parse-deep", "any", "return JSON.parse('['.repeat(1e6)+']'.repeat(1e6)).length"),
    ("json-stringify-deep", "any", "let o={}; for(let i=0;i<1e6;i++) o={o}; return JSON.stringify(o).length"),
    ("parser-deep", "any", "return eval('('.repeat(1e6)+'1'+')'.repeat(1e6))"),
    ("regexp-deep", "any", "return new RegExp('('.repeat(1e6)+'a'+')'.repeat(1e6)).test('a')"),
    ("proxy-chain", "any", "let p={}; for(let i=0;i<1e6;i++) p=new Proxy(p,{}); return p.x===undefined"),
    ("getter-recursion", "any", "const o={get a(){ return this.a }}; return o.a"),
    ("tostring-recursion", "any", "const a={toString(){ return ''+a }}; return ''+a"),
    ("deep-prototype", "any", "let o={}; for(let i=0;i<1e6;i++) o=Object.create(o); return 'zz' in o"),
    ("result-huge", "stop", "return 'x'.repeat(40e6)"),
    ("result-getter-loop", "stop", "return {get a(){ for(;;); }}"),
    ("result-tojson-loop", "stop", "return {toJSON(){ for(;;); }}"),
    ("result-proxy", "stop", "return new Proxy({}, {ownKeys(){ for(;;); }})"),
    ("throw-getter-loop", "stop", "throw {get message(){ for(;;); }, get stack(){ for(;;); }, toString(){ for(;;); }}"),
    ("throw-null", "any", "throw null"),
    ("throw-huge", "stop", "throw new Error('x'.repeat(40e6))"),
    ("prepare-stack", "stop", "Error.prepareStackTrace=()=>{ for(;;); }; null.x"),
    ("log-flood", "stop", "for(;;) api.log('x'.repeat(100000))"),
    ("host-flood", "stop", "for(;;) api.get('k')"),
    ("host-huge-arg", "any", "return api.insert('t',{a:'x'.repeat(30e6)})"),
    ("host-cyclic-arg", "any", "const o={}; o.o=o; return api.insert('t',o)"),
    (
        "ctor-escape",
        "ok",
        "const g=(function(){}).constructor('return this')(); return ['process','require','Deno','python','std','os','scriptArgs','module','__filename','Bun'].filter(k=>typeof g[k]!=='undefined')",
    ),
    (
        "host-ctor",
        "ok",
        "const g=api.log.constructor('return this')(); return ['process','require','Deno','python','std','os'].filter(k=>typeof g[k]!=='undefined')",
    ),
    (
        "import-fs",
        "ok",
        "const r=[]; for(const m of ['fs','os','std','node:fs','file:///etc/passwd','/etc/passwd']){ try{ await import(m); r.push(m) }catch(e){} } return r",
    ),
    (
        "read-file",
        "ok",
        "const r=[]; for (const f of [()=>Deno.readTextFileSync('/etc/passwd'),()=>require('fs').readFileSync('/etc/passwd','utf8'),()=>process.binding('fs'),()=>std.loadFile('/etc/passwd'),()=>python.eval('open(\"/etc/passwd\").read()')]){ try{ f(); r.push(String(f)) }catch(e){} } return r",
    ),
    (
        "net",
        "ok",
        "const r=[]; for (const f of [()=>fetch('http://127.0.0.1:9/').then(()=>1),()=>new WebSocket('ws://127.0.0.1:9'),()=>XMLHttpRequest]){ try{ await f(); r.push(String(f)) }catch(e){ if(/refused|ECONN|fetch failed/i.test(String(e&&e.cause||e))) r.push('tried:'+String(e).slice(0,60)) } } return r",
    ),
    (
        "proto-pollute",
        "ok",
        "Object.prototype.polluted='yes'; Array.prototype.map=()=>['hacked']; JSON.stringify=()=>'\"forged\"'; return {v:1}",
    ),
    (
        "timer-flood",
        "any",
        "if(typeof setInterval==='undefined') return 'none'; for(let i=0;i<1e4;i++) setInterval(()=>{},0); return 1",
    ),
    (
        "settimeout-loop",
        "any",
        "if(typeof setTimeout==='undefined') return 'none'; setTimeout(()=>{ for(;;); },0); return 1",
    ),
]

PYTHON: Final[list[tuple[str, str, str]]] = [
    ("loop", "stop", "while True: pass"),
    ("loop-except", "stop", "while True:\n  try:\n    while True: pass\n  except BaseException: pass"),
    ("loop-finally", "stop", "def f():\n  try:\n    while True: pass\n  finally: f()\nf()"),
    ("regex-nested", "stop", "import re\nre.match(r'(a+)+$', 'a'*40+'!')"),
    ("regex-backref", "stop", "import re\nre.match(r'(.*a){20}\\1$', 'a'*60+'b')"),
    ("int-pow", "stop", "x = 10**(10**9)\nlen(str(x))"),
    ("int-square", "stop", "x=3\nwhile True: x=x*x"),
    ("int-str", "stop", "x=1<<30000000\nlen(str(x))"),
    ("sum-range", "stop", "sum(range(10**12))"),
    ("list-range", "stop", "list(range(10**10))"),
    ("sort", "stop", "a=[(i*7919)%1000003 for i in range(3000000)]\nwhile True: sorted(a)"),
    ("str-repeat-1g", "any", "len('a'*2**30)"),
    ("str-double", "stop", "s='a'\nwhile True: s+=s"),
    ("list-grow", "stop", "a=[]\nwhile True: a.append([1.5]*1000)"),
    ("dict-grow", "stop", "d={}\ni=0\nwhile True:\n  d[i]=str(i); i+=1"),
    ("bytes-8g", "any", "len(bytes(2**33))"),
    ("replace-blowup", "stop", "len(('a'*100000).replace('a','b'*100000))"),
    ("format-width", "any", "len('{:>1000000000}'.format('x'))"),
    ("fstring-width", "any", "len(f'{1:>1000000000}')"),
    ("join-blowup", "stop", "len(('x'*1000000).join(['y']*100000))"),
    ("recursion", "any", "def f(): return f()+1\nf()"),
    ("deep-list", "any", "a=[]\nfor _ in range(1000000): a=[a]\nstr(a)"),
    ("deep-list-cmp", "any", "a=[]\nb=[]\nfor _ in range(500000):\n  a=[a]; b=[b]\na==b"),
    ("parser-deep", "any", "eval('('*100000+'1'+')'*100000)"),
    (
        "source-deep",
        "any",
        "x = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    ),
    ("json-deep", "any", "import json\njson.loads('['*1000000+']'*1000000)"),
    ("generator", "stop", "def g():\n  while True: yield 1\nlist(g())"),
    ("comprehension", "stop", "[x for x in iter(int, 1)]"),
    ("async-loop", "stop", "import asyncio\nasync def f():\n  while True: await asyncio.sleep(0)\nasyncio.run(f())"),
    ("sleep", "any", "import time\ntime.sleep(3600)"),
    ("repr-loop", "stop", "class A:\n  def __repr__(self):\n    while True: pass\nrepr(A())"),
    ("result-repr-loop", "any", "class A:\n  def __repr__(self):\n    while True: pass\nA()"),
    ("hash-loop", "stop", "class A:\n  def __hash__(self):\n    while True: pass\n{A():1}"),
    ("result-huge", "stop", "'x'*40000000"),
    ("raise-huge", "any", "raise ValueError('x'*40000000)"),
    ("print-flood", "stop", "while True: print('x'*100000)"),
    ("host-flood", "stop", "while True: get('k')"),
    ("host-huge-arg", "any", "insert('t', {'a': 'x'*30000000})"),
    ("host-cyclic", "any", "a=[]\na.append(a)\ninsert('t', a)"),
    ("zip-bomb-set", "stop", "s=set()\nwhile True: s.add(frozenset(range(len(s))))"),
    (
        "subclasses",
        "ok",
        "r=[]\ntry:\n  r=[c.__name__ for c in ().__class__.__base__.__subclasses__() if 'wrap_close' in c.__name__ or 'Importer' in c.__name__]\nexcept Exception: pass\nr",
    ),
    ("func-globals", "ok", "r=[]\ntry:\n  r=list(get.__globals__.keys())\nexcept Exception: pass\nr"),
    (
        "import-os",
        "ok",
        "r=[]\nfor m in ['subprocess','socket','ctypes','builtins','importlib','posix','shutil','multiprocessing','threading','signal','inspect','gc','mmap']:\n  try:\n    __import__(m); r.append(m)\n  except BaseException: pass\nr",
    ),
    (
        "os-calls",
        "ok",
        "r=[]\ntry:\n  import os\n  for f in ['system','popen','listdir','fork','kill','environ']:\n    try:\n      g=getattr(os,f)\n      v=g('id') if f in('system','popen') else (g('/') if f=='listdir' else (dict(g) if f=='environ' else None))\n      if v: r.append(f)\n    except BaseException: pass\nexcept ImportError: pass\nr",
    ),
    ("open-passwd", "ok", "r=[]\ntry:\n  r.append(open('/etc/passwd').read()[:10])\nexcept BaseException: pass\nr"),
    (
        "frame-walk",
        "ok",
        "r=[]\ntry:\n  raise ValueError\nexcept ValueError as e:\n  try:\n    f=e.__traceback__.tb_frame\n    while f:\n      r+= [k for k in f.f_globals if k in ('subprocess','os','sys','SECRET')]\n      f=f.f_back\n  except BaseException: r=[]\nr",
    ),
    (
        "gen-frame",
        "ok",
        "r=[]\ntry:\n  g=(x for x in [1])\n  r=[k for k in g.gi_frame.f_back.f_globals if k in('os','SECRET')]\nexcept BaseException: pass\nr",
    ),
    (
        "format-escape",
        "ok",
        "r=[]\ntry:\n  s='{0.__globals__}'.format(get)\n  if 'SECRET' in s: r.append(s[:20])\nexcept BaseException: pass\nr",
    ),
]

MORE_JAVASCRIPT: Final[list[tuple[str, str, str]]] = [
    # Processor time: long work inside of the engine, which an interrupt of its interpreter would not reach.
    ("flat-map", "stop", "const a = new Array(3000).fill(0); for (;;) a.flatMap(() => a)"),
    ("last-index-of", "stop", "return Array.prototype.lastIndexOf.call({length: 2 ** 53 - 1}, 1)"),
    ("includes", "stop", "return Array.prototype.includes.call({length: 2 ** 53 - 1}, 1)"),
    ("reverse-arraylike", "stop", "return Array.prototype.reverse.call({length: 2 ** 53 - 1}).length"),
    ("set-union", "stop", "const s = new Set(Array(1e5).keys()); for (;;) s.union(s)"),
    ("group-by", "stop", "for (;;) Object.groupBy(Array(1e5).fill(1), x => x)"),
    ("date-parse", "stop", "for (;;) Date.parse('1'.repeat(1e6))"),
    ("json-parse-large", "stop", "const t = JSON.stringify(Array(1e5).fill(1)); for (;;) JSON.parse(t)"),
    ("json-parse-reviver", "stop", "return JSON.parse('[1]', () => { for (;;); })"),
    ("normalize", "stop", "const s = '\\u1e9b\\u0323'.repeat(1e5); for (;;) s.normalize('NFKD')"),
    ("locale-compare", "stop", "const s = 'ä'.repeat(1e5); for (;;) s.localeCompare(s + 'b')"),
    ("regex-alternation", "stop", "return /^(a|aa)+$/.test('a'.repeat(60) + 'b')"),
    ("regex-sticky", "stop", "const r = /(x+x+)+y/y; for (;;) r.test('x'.repeat(30))"),
    ("regex-unicode-sets", "stop", "for (;;) new RegExp('[\\\\p{L}--[a-z]]', 'v').test('x')"),
    ("encode-uri", "stop", "const s = '€'.repeat(1e5); for (;;) encodeURIComponent(s)"),
    ("typed-sort", "stop", "const a = new Float64Array(1e6).map(Math.random); for (;;) a.toSorted()"),
    ("proxy-has", "stop", "with_ = new Proxy({}, {has() { for (;;); }}); return 'x' in with_"),
    ("symbol-iterator", "stop", "const o = {[Symbol.iterator]() { for (;;); }}; return [...o]"),
    ("async-iterator", "stop", "for await (const x of (async function* () { for (;;) yield 1 })()); return 1"),
    ("tagged", "stop", "for (;;) String.raw`${1}${2}`"),
    ("queue-microtask", "stop", "await new Promise(() => { (function f() { queueMicrotask(f) })() })"),
    ("promise-race", "stop", "for (;;) await Promise.race([1, 2])"),
    ("finally-loop", "stop", "try { throw 1 } finally { for (;;); }"),
    ("module-scope-loop", "stop", "return eval('(function () { for (;;); })()')"),
    ("function-constructor-loop", "stop", "return new Function('for (;;);')()"),
    # Memory: in places that a limit of the heap might not count.
    ("set-grow", "stop", "const s = new Set(); for (let i = 0; ; i++) s.add('k' + i)"),
    ("symbol-grow", "stop", "for (let i = 0; ; i++) Symbol.for('k' + i)"),
    ("regexp-grow", "stop", "const a = []; for (let i = 0; ; i++) a.push(new RegExp('a{' + (i % 999) + '}'))"),
    ("weakmap-grow", "stop", "const k = [], m = new WeakMap(); for (;;) { const o = {}; k.push(o); m.set(o, k) }"),
    ("bigint-grow", "stop", "const a = []; for (;;) a.push(1n << 900000n)"),
    ("function-grow", "stop", "const a = []; for (let i = 0; ; i++) a.push(new Function('return ' + i))"),
    ("shared-buffer", "stop", "const a = []; for (;;) a.push(new Uint8Array(new SharedArrayBuffer(1 << 24)).fill(1))"),
    ("resizable-buffer", "stop", "const a = []; for (;;) a.push(new ArrayBuffer(8, {maxByteLength: 1 << 28}))"),
    ("text-encoder", "stop", "const a = []; for (;;) a.push(new TextEncoder().encode('x'.repeat(1 << 20)))"),
    ("base64", "stop", "const a = []; for (;;) a.push(btoa('x'.repeat(1 << 20)) + a.length)"),
    ("error-grow", "stop", "const a = []; for (;;) a.push(new Error('x'.repeat(1000)))"),
    ("promise-grow", "stop", "const a = []; for (;;) a.push(new Promise(() => {}).then(() => {}))"),
    (
        "caught-memory",
        "any",
        "const a = []; try { for (;;) a.push(new Array(1000).fill(1)) } catch (e) { return 'survived' }",
    ),
    # Results that are not JSON, or far larger than they look.
    ("result-doubled", "output:result_bytes", "let o = [1]; for (let i = 0; i < 28; i++) o = [o, o]; return o"),
    ("result-deep", "output:result_depth", "let o = []; for (let i = 0; i < 3000; i++) o = [o]; return o"),
    ("result-surrogate", "output:result_text", "return '\\ud800'"),
    ("result-surrogate-key", "output:result_text", "return {['\\udfff']: 1}"),
    ("result-raw-infinite", "output:result_number", "return JSON.rawJSON('1e999')"),
    ("result-raw-digits", "output:result_number", "return JSON.rawJSON('9'.repeat(6000))"),
    ("result-infinity", "ok", "return 1 / 0 === Infinity && NaN !== NaN ? [] : [1]"),
    ("result-bigint", "output:result_json", "return 1n"),
    ("result-symbol", "output:result_json", "return Symbol('x')"),
    ("result-function", "output:result_json", "return () => 1"),
    ("result-cyclic", "output:result_json", "const o = {}; o.o = o; return o"),
    ("result-tojson-throws", "output:result_json", "return {toJSON() { throw new Error('no') }}"),
    (
        "result-many-keys",
        "output:result_bytes",
        "const o = {}; for (let i = 0; i < 5e4; i++) o['key' + i] = i; return o",
    ),
    ("result-sparse", "output:result_bytes", "const a = []; a[1e7] = 1; return a"),
    ("result-thenable", "stop", "return {then(f) { for (;;) f }}"),
    # The boundary: what a script may call, and what it may learn of the prelude.
    (
        "prepare-stack-functions",
        "ok",
        """
        const found = [];
        Error.prepareStackTrace = (error, sites) => {
          for (const s of sites) { const f = s.getFunction?.(); if (f) found.push(String(f)) }
          return 'x';
        };
        try { await api.get(5) } catch (e) { String(e.stack) }
        String(new Error('x').stack);
        return found""",
    ),
    (
        "prepare-stack-define",
        "ok",
        """
        const found = [];
        try { Object.defineProperty(Error, 'prepareStackTrace', {value: () => found.push(1)}) } catch (e) {}
        try { Reflect.deleteProperty(Error, 'prepareStackTrace') && found.push('deleted') } catch (e) {}
        String(new Error('x').stack);
        return found""",
    ),
    (
        "globals-of-prelude",
        "ok",
        """
        return Object.getOwnPropertyNames(globalThis).filter(n => /host|prelude|__|given|budget|names/.test(n))""",
    ),
    (
        "callee-caller",
        "ok",
        """
        const found = [];
        function f() { try { found.push(f.caller && String(f.caller)) } catch (e) {} }
        const o = {toJSON() { f(); try { found.push(arguments.callee.caller) } catch (e) {} return 1 }};
        await api.insert('t', {o});
        return found.filter(Boolean)""",
    ),
    (
        "array-tojson",
        "ok",
        """
        Array.prototype.toJSON = () => ['forged', {}];
        const got = await api.get('mine');
        console.log('one', 'two');
        delete Array.prototype.toJSON;
        return got === 'mine' ? [] : [got]""",
    ),
    (
        "object-tojson",
        "ok",
        """
        Object.prototype.toJSON = function () { return 'forged' };
        String.prototype.toJSON = function () { return 'forged' };
        const got = await api.get('mine');
        delete Object.prototype.toJSON; delete String.prototype.toJSON;
        return got === 'forged' || got === 'mine' ? [] : [got]""",
    ),
    (
        "array-setters",
        "ok",
        """
        const found = [];
        for (const i of [0, 1, 2]) Object.defineProperty(Array.prototype, i, {set(v) { found.push(typeof v) }, configurable: true});
        await api.get('k');
        console.log('a', 'b');
        for (const i of [0, 1, 2]) delete Array.prototype[i];
        return found""",
    ),
    (
        "patched-builtins",
        "ok",
        """
        const found = [], seize = name => function (...a) { found.push(name); return undefined };
        String.prototype.slice = seize('slice'); String.prototype.split = seize('split');
        String.prototype.toWellFormed = seize('toWellFormed'); Array.prototype.join = seize('join');
        Array.prototype.map = seize('map'); Function.prototype.call = seize('call'); Function.prototype.bind = seize('bind');
        Function.prototype.apply = seize('apply'); Reflect.apply = seize('Reflect.apply');
        JSON.stringify = seize('stringify'); JSON.parse = seize('parse'); Date.now = seize('now');
        Object.defineProperty = seize('defineProperty'); Promise.prototype.then = seize('then');
        console.log('x', {a: 1}); performance.now();
        const got = await ctx.get('k');
        return found.filter(n => n !== 'then').concat(got === 'k' ? [] : [got])""",
    ),
    (
        "instance-of",
        "ok",
        """
        const found = [];
        Object.defineProperty(Error, Symbol.hasInstance, {value(v) { if (typeof v === 'function') found.push(v) }});
        console.log({a: 1});
        return found""",
    ),
    (
        "frozen-ctx",
        "ok",
        """
        const found = [];
        for (const [o, n] of [[ctx, 'get'], [ctx, 'extra'], [console, 'log'], [performance, 'now']]) {
          try { o[n] = 1; if (o[n] === 1) found.push(n) } catch (e) {}
        }
        return found""",
    ),
    (
        "functions-not-given",
        "ok",
        """
        return ['db', 'kv', 'fetch', 'schedule', 'notify', 'host'].filter(n => n in ctx || n in globalThis)""",
    ),
    (
        "source-of-prelude",
        "ok",
        """
        return [ctx.get, ctx.log, console.log, performance.now].map(String).filter(s => !s.includes('[native code]'))""",
    ),
    (
        "time-origin",
        "ok",
        "return performance.timeOrigin === undefined && Number.isInteger(performance.now()) ? [] : ['clock']",
    ),
    ("import-itself", "ok", "const m = await import('script.js'); return Object.keys(m).filter(n => n !== 'default')"),
    (
        "argument-doubled",
        "stop",
        "let o = [1]; for (let i = 0; i < 28; i++) o = [o, o]; return api.insert('t', {o})",
    ),
    (
        "argument-types",
        "ok",
        """
        const found = [];
        for (const args of [[], [5], ['t'], ['t', 5], ['t', []], ['t', {}, 1], [null, {}], [{}, 't'], ['t', '\\ud800']]) {
          try { await api.insert(...args); found.push(args) } catch (e) { if (e.code !== 'invalid_argument') found.push(e.code) }
        }
        return found""",
    ),
    (
        "argument-raw",
        "ok",
        """
        try { await api.insert('t', {n: JSON.rawJSON('1e999')}); return [1] } catch (e) { return e.code === 'invalid_argument' ? [] : [e.code] }""",
    ),
    (
        "reentrant-tojson",
        "ok",
        """
        const o = {toJSON() { console.log({a: 1}); return {toJSON() { throw 5 }, v: 'x'.repeat(10)} }};
        const got = await api.get('k'); await api.insert('t', o); return got === 'k' ? [] : [got]""",
    ),
    (
        "log-values",
        "ok",
        """
        console.log(Symbol('x'), null, undefined, 1n, () => 1, Object.create(null), new Proxy({}, {get() { throw 1 }}));
        console.log({toString() { throw 1 }}); console.log('\\ud800'); console.error(new Error('x'));
        return []""",
    ),
    ("log-empty-lines", "stop", "for (;;) console.log()"),
    (
        "deep-error-cause",
        "error",
        "let e = new Error('0'); for (let i = 0; i < 1e4; i++) e = new Error('x', {cause: e}); throw e",
    ),
    ("throw-proxy", "any", "throw new Proxy({}, {get() { for (;;); }})"),
    ("throw-function", "error", "throw () => 1"),
    ("throw-surrogate", "error", "throw new Error('\\ud800')"),
    ("throw-forged-memory", "memory:memory_bytes", "throw new InternalError('out of memory')"),
    ("throw-long-name", "error", "const e = new Error('x'); e.name = 'n'.repeat(1e5); throw e"),
    (
        "throw-long-stack",
        "error",
        "const e = new Error('x'); e.stack = ('at f (script.js:1:1)\\n').repeat(1e5); throw e",
    ),
]

MORE_PYTHON: Final[list[tuple[str, str, str]]] = [
    ("while-else", "stop", "while True:\n  pass\nelse:\n  return 1"),
    ("nested-try", "stop", "def f():\n  try:\n    while True: pass\n  finally:\n    while True: pass\nf()"),
    ("key-loop", "stop", "def k(x):\n  while True: pass\nsorted([1, 2], key=k)"),
    ("eq-loop", "stop", "class A:\n  def __eq__(self, o):\n    while True: pass\nreturn A() == A()"),
    ("getattr-loop", "any", "class A:\n  def __getattr__(self, n):\n    while True: pass\nreturn A().x"),
    ("str-loop", "stop", "class A:\n  def __str__(self):\n    while True: pass\nreturn str(A())"),
    ("dict-comprehension", "stop", "return {i: i for i in iter(int, 1)}"),
    ("any-range", "stop", "return any(x < 0 for x in range(10**12))"),
    ("count-in", "any", "return 10**18 in range(0, 10**18, 7)"),
    ("shift-left", "any", "return 1 << 10**10"),
    ("factorial", "stop", "x = 1\nfor i in range(1, 10**7): x *= i\nreturn len(str(x))"),
    ("pow-mod", "any", "return pow(3, 10**5000, 10**5000 + 1)"),
    ("str-mul", "any", "return len('ab' * 10**12)"),
    ("list-mul", "any", "return len([0] * 10**12)"),
    ("tuple-mul", "any", "return len((0,) * 10**12)"),
    ("zfill", "any", "return len('1'.zfill(10**10))"),
    ("ljust", "any", "return len('1'.ljust(10**10))"),
    ("percent-width", "any", "return len('%1000000000d' % 1)"),
    ("int-parse", "any", "return int('9' * 10**6) % 7"),
    ("encode-grow", "stop", "b = b'a'\nwhile True: b += b"),
    ("set-grow", "stop", "s = set()\ni = 0\nwhile True:\n  s.add(i)\n  i += 1"),
    ("class-grow", "stop", "a = []\nwhile True:\n  class A: pass\n  a.append(A)"),
    ("closure-grow", "stop", "f = lambda: 0\nwhile True:\n  g = f\n  f = lambda: g()"),
    ("exception-grow", "stop", "a = []\nwhile True: a.append(ValueError('x' * 1000))"),
    ("sleep-often", "stop", "import time\nwhile True: time.sleep(0.001)"),
    ("async-sleep", "timeout:wall_ms", "import asyncio\nasync def f():\n  await asyncio.sleep(3600)\nasyncio.run(f())"),
    (
        "async-gather-sleep",
        "timeout:wall_ms",
        """import asyncio
async def f():
  await asyncio.sleep(3600)
async def g():
  await asyncio.gather(f(), f())
asyncio.run(g())""",
    ),
    ("sleep-nan", "any", "import time\ntime.sleep(float('nan'))"),
    ("sleep-inf", "any", "import time\ntime.sleep(float('inf'))"),
    ("result-doubled", "output:result_bytes", "a = [1]\nfor _ in range(28): a = [a, a]\nreturn a"),
    ("result-doubled-dict", "output:result_bytes", "a = {'k': 1}\nfor _ in range(40): a = {'x': a, 'y': a}\nreturn a"),
    ("result-deep", "output:result_depth", "a = []\nfor _ in range(150): a = [a]\nreturn a"),
    ("result-nan", "output:result_json", "return float('nan')"),
    ("result-inf", "output:result_json", "return [1e999]"),
    ("result-digits", "output:result_json", "return 10**6000"),
    ("result-set", "output:result_json", "return {1, 2}"),
    ("result-bytes", "output:result_json", "return b'x'"),
    ("result-int-key", "output:result_json", "return {1: 2}"),
    ("result-cycle", "output:result_json", "a = []\na.append(a)\nreturn a"),
    ("result-function", "output:result_json", "return main"),
    ("result-module", "output:result_json", "return ctx"),
    ("result-long", "output:result_bytes", "return 'x' * 300000"),
    ("argument-doubled", "limit:argument_bytes", "a = [1]\nfor _ in range(28): a = [a, a]\ninsert('t', {'a': a})"),
    (
        "argument-types",
        "ok",
        """found = []
for args in ((), (5,), ('t',), ('t', 5), ('t', []), ('t', {}, 1), (None, {}), ({}, 't'), ('t', {1: 2}), ('t', {'a': {3}})):
  try:
    insert(*args)
    found.append(len(args))
  except TypeError:
    pass
return found""",
    ),
    (
        "argument-named",
        "ok",
        """try:
  insert(table='t', row={})
  return [1]
except TypeError:
  return []""",
    ),
    (
        "functions-not-given",
        "ok",
        """found = []
for name in ('db', 'kv', 'fetch', 'schedule', 'host'):
  if hasattr(ctx, name): found.append(name)
return found""",
    ),
    ("bare-host-names", "error", "return db.get('t', 1)"),
    ("forged-name", "error", "return host_call('ctx.insert')"),
    (
        "set-on-ctx",
        "ok",
        """try:
  ctx.get = 5
  return [1]
except AttributeError:
  return []""",
    ),
    (
        "import-others",
        "ok",
        """found = []
try:
  import evertick
  found.append(1)
except ImportError:
  pass
try:
  import ctypes
  found.append(2)
except ImportError:
  pass
return found""",
    ),
    (
        "environment",
        "ok",
        """import os
found = []
try:
  found += list(os.environ)
except Exception:
  pass
try:
  found += [os.getenv('PATH')] if os.getenv('PATH') else []
except Exception:
  pass
return found""",
    ),
    (
        "files",
        "ok",
        """from pathlib import Path
found = []
for path in ('/etc/passwd', '/proc/self/environ', '/proc/1/cmdline', '.'):
  for name in ('read_text', 'exists', 'iterdir', 'stat', 'resolve'):
    try:
      if getattr(Path(path), name)(): found.append(path + name)
    except Exception:
      pass
return found""",
    ),
    ("raise-base", "error", "raise BaseException('x')"),
    ("raise-exit", "error", "raise SystemExit(0)"),
    ("raise-long-name", "error", "class E(Exception): pass\nraise E('x' * 100000)"),
    ("raise-memory", "memory:memory_bytes", "raise MemoryError()"),
    ("import-often", "limit:host_calls", "while True:\n  try:\n    import nosuch\n  except ImportError:\n    pass"),
    ("unknown-names", "limit:host_calls", "while True:\n  try:\n    nosuch()\n  except NameError:\n    pass"),
    (
        "environment-often",
        "limit:host_calls",
        "import os\nwhile True:\n  try:\n    os.getenv('x')\n  except RuntimeError:\n    pass",
    ),
    ("print-newlines", "any", "while True: print()"),
    ("print-one-line", "any", "while True: print('x', end='')"),
]
