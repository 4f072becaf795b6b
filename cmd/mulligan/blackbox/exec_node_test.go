package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// http:// goes to the proxy as it should, so that names which only mulligan knows
// work, and what is behind them is retried.
func TestExecNodePlain(t *testing.T) {
	t.Parallel()
	node := need(t, "node")
	for name, program := range map[string]string{
		"http":      `require('http').get(internal, print)`,
		"own agent": `const http = require('http'); http.get(internal, { agent: new http.Agent() }, print)`,
		// Node's own way, from 22.21 on, is a tunnel, which goes to the host it names.
		"fetch": `fetch(loopback).then((r) => r.text()).then(console.log)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := answers(t, flaky()...)
			h := how{config: fmt.Sprintf("defaults: {retry: {%s}}\nupstreams: {flaky: {hosts: [flaky.internal], endpoints: [\"http://%s\"]}}\n", quick, u.addr)}
			code, stdout, stderr := runExec(t, h, node, "-e", `
				const [loopback, internal] = process.argv.slice(1);
				const print = (r) => { let s = ''; r.on('data', (d) => s += d); r.on('end', () => console.log(s)) };
				`+program, fmt.Sprintf("http://api.localhost:%d/", u.port()), "http://flaky.internal/")
			want(t, "exit status", code, 0)
			want(t, "standard output", stdout, "saved\n")
			contains(t, "standard error", stderr, "mulligan: 1 request, 1 retried, 1 saved, 0 failed\n")
		})
	}
}

// nodeHabits is what programs do with Node's HTTP, one line of output each.
const nodeHabits = `
const http = require('http'), https = require('https');
const [plain, secure, dead, proxy] = process.argv.slice(1).map((s) => new URL(s));
const at = (url, more) => ({ host: url.hostname, port: url.port, path: '/', ...more });
const ask = (module, options, body) => new Promise((done) => {
	const r = module.request(options, (res) => {
		let s = '';
		res.on('data', (d) => s += d);
		res.on('end', () => done(res.statusCode + ' ' + s));
	});
	r.on('error', (e) => done('error ' + e.code));
	r.end(body);
});
const call = (url, options) => fetch(url, options).then((r) => r.text(), (e) => e.name + (e.cause ? ' ' + e.cause.code : ''));
const later = (ms) => new Promise((done) => setTimeout(done, ms));

(async () => {
	const say = async (what, promise) => console.log(what + ': ' + await promise);
	await say('query', ask(http, at(plain, { path: '/a%20b?c=d&e' })));
	await say('body', ask(http, at(plain, { method: 'POST', path: '/p' }), 'text'));
	await say('headers as a list', ask(http, at(plain, { method: 'POST', path: '/l', headers: ['Host', plain.host, 'Content-Length', '4'] }), 'text'));
	await say('expect', ask(http, at(plain, { method: 'PUT', path: '/x', headers: { Expect: '100-continue' } }), 'text'));
	await say('options', ask(http, at(plain, { method: 'OPTIONS', path: '*', agent: new http.Agent() })));
	await say('its own proxy', ask(http, at(proxy, { path: plain + 'direct', agent: new http.Agent(), headers: { host: plain.host } })));
	await say('secure body', ask(https, at(secure, { method: 'POST', path: '/p' }), 'text'));

	const agent = new https.Agent({ keepAlive: true, maxSockets: 3 });
	const all = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(https, at(secure, { path: '/' + i, agent }))));
	await say('many', all.map((s, i) => s === '200 GET /' + i + ' ').every(Boolean));

	await say('no answer', ask(https, at(secure, { path: '/hang', signal: AbortSignal.timeout(200) })));
	await say('timeout', new Promise((done) => {
		const r = https.request(at(secure, { path: '/hang', timeout: 200 }));
		r.on('timeout', () => { done('noticed'); r.destroy(); }).on('error', () => {}).end();
	}));
	await say('refused', ask(https, at(dead)).then((s) => s.startsWith('error ')));
	await say('its own check', ask(https, at(secure, { agent: false, checkServerIdentity: () => Object.assign(new Error('no'), { code: 'MINE' }) })));

	await say('fetch with a body', call(plain + 'f', { method: 'POST', body: 'text' }));
	await say('fetch of a stream', call(secure + 'f', { method: 'POST', duplex: 'half', body: new ReadableStream({
		async start(c) { for (const s of ['one', 'two']) { c.enqueue(new TextEncoder().encode(s)); await later(20); } c.close(); },
	}) }));
	for (const url of [plain, secure]) {
		await say('fetch aborted', call(url + 'hang', { signal: AbortSignal.timeout(200) }));
	}
	await say('fetch refused', call(dead).then((s) => s.startsWith('TypeError ')));
	const pieces = [];
	for await (const piece of (await fetch(secure + 'stream')).body) {
		pieces.push(Buffer.from(piece).toString());
		if (pieces.length === 1) await ask(http, at(plain, { path: '/more' }));
	}
	await say('fetch in pieces', pieces.join());
	process.exit(0);
})();
`

func TestExecNodeHabits(t *testing.T) {
	t.Parallel()
	node := need(t, "node")
	more := make(chan struct{})
	echo := func(p *peer, r *request) bool {
		switch r.Target {
		case "/hang":
			return hang(p, r)
		case "/stream":
			p.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
			<-more // the client has the first piece
			p.write("3\r\ntwo\r\n0\r\n\r\n")
			return true
		case "/more":
			close(more)
		}
		return text(200, r.Method+" "+r.Target+" "+r.Body)(p, r)
	}
	plain, s, proxy := answers(t, echo), newSecret(t, echo), freeAddr(t)
	h := how{config: fmt.Sprintf("listen: {proxy: \"%s\"}\n", proxy) + s.config}
	_, deadPort, _ := strings.Cut(closedAddr(t), ":")
	code, stdout, stderr := runExec(t, h, node, "-e", nodeHabits,
		fmt.Sprintf("http://api.localhost:%d", plain.port()), s.url(""), "https://dead.localhost:"+deadPort, "http://"+proxy)
	want(t, "exit status", code, 0)
	want(t, "standard output", stdout, `query: 200 GET /a%20b?c=d&e 
body: 200 POST /p text
headers as a list: 200 POST /l text
expect: 200 PUT /x text
options: 200 OPTIONS * 
its own proxy: 200 GET /direct 
secure body: 200 POST /p text
many: true
no answer: error ABORT_ERR
timeout: noticed
refused: true
its own check: error MINE
fetch with a body: POST /f text
fetch of a stream: POST /f onetwo
fetch aborted: TimeoutError
fetch aborted: TimeoutError
fetch refused: true
fetch in pieces: one,two
`)
	if t.Failed() {
		t.Log(stderr)
	}
}
