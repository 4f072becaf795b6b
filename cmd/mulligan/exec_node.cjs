// Sends what this Node.js process asks of HTTP servers through the proxy that the
// environment names. `mulligan exec` has Node load it, before the program, through
// NODE_OPTIONS. From 22.21 and 24.5 on Node does so by itself where NODE_USE_ENV_PROXY
// is set, but for Agents that the program makes.
//
// The http and https modules: every Agent of theirs, and of classes made from
// theirs, opens its connections with createConnection, so that is where ours take
// their place. http:// goes to the proxy with the whole URL in the request line,
// https:// through a tunnel. What has a connection of its own making (a socket's
// path, a createConnection, a proxy's agent) keeps it.
//
// fetch, where Node needs help: undici, which Node carries within, sends through one
// global dispatcher, that packages of the same family share. It takes tens of
// milliseconds to load, so ours is put in place when it is first needed.
'use strict';

const goThroughProxy = () => {
	const knowsProxies = process.allowedNodeEnvironmentFlags.has('--use-env-proxy');

	const env = (name) => process.env[name] || process.env[name.toUpperCase()] || '';
	const parse = (text) => {
		try {
			const url = new URL(text);
			if (url.protocol !== 'http:') return null;
			const host = url.hostname.replace(/^\[|\]$/g, '');
			const who = url.username || url.password ? `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` : '';
			return { host, port: Number(url.port) || 80, auth: who && `Basic ${Buffer.from(who).toString('base64')}` };
		} catch {
			return null;
		}
	};
	const proxies = { 'http:': parse(env('http_proxy')), 'https:': parse(env('https_proxy')) };
	if (!proxies['http:'] && !proxies['https:']) return;

	const direct = env('no_proxy').toLowerCase().split(/[\s,]+/).filter(Boolean);
	const isDirect = (host) => direct.some((name) => name === '*' || name === host ||
		host.endsWith(name.startsWith('.') ? name : `.${name}`));

	// proxyFor returns the proxy for a host, or null. The proxy itself is none: a
	// program that knows proxies calls it by its address.
	const proxyFor = (protocol, host, port) => {
		const proxy = proxies[protocol];
		if (!proxy || isDirect(host.toLowerCase()) || (host === proxy.host && port === proxy.port)) return null;
		return proxy;
	};

	const bracketed = (host) => (host.includes(':') ? `[${host}]` : host);

	const net = require('net');
	const tls = require('tls');
	const http = require('http');
	const https = require('https');
	const { Duplex } = require('stream');
	const connect = net.connect;

	// tunnel opens a connection through the proxy and calls done once, with an error
	// or with a socket whose next byte is the server's. It returns that socket.
	const tunnel = (proxy, host, port, done) => {
		const target = `${bracketed(host)}:${port}`;
		const socket = connect({ host: proxy.host, port: proxy.port });
		let head = Buffer.alloc(0);
		const end = (error) => {
			socket.removeListener('readable', read);
			socket.removeListener('error', end);
			socket.removeListener('close', closed);
			if (error) {
				socket.on('error', () => {});
				socket.destroy();
				done(error);
			} else {
				done(null, socket);
			}
		};
		const fail = (code, message) => end(Object.assign(new Error(message), { code, host, port }));
		const closed = () => fail('ECONNRESET', `the proxy closed the connection before it had connected to ${target}`);
		const read = () => {
			for (let chunk; (chunk = socket.read()) !== null;) head = Buffer.concat([head, chunk]);
			const at = head.indexOf('\r\n\r\n');
			if (at < 0) {
				if (head.length > 65536) fail('ERR_PROXY_TUNNEL', 'the proxy does not speak HTTP');
				return;
			}
			const line = head.toString('latin1', 0, head.indexOf('\r\n'));
			const status = /^HTTP\/1\.[01] (\d{3})/.exec(line);
			if (!status || status[1] !== '200') {
				fail('ERR_PROXY_TUNNEL', `the proxy did not connect to ${target}: ${line}`);
				return;
			}
			if (head.length > at + 4) socket.unshift(head.subarray(at + 4));
			end(null);
		};
		socket.on('readable', read);
		socket.on('error', end);
		socket.on('close', closed);
		const auth = proxy.auth ? `Proxy-Authorization: ${proxy.auth}\r\n` : '';
		socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${auth}\r\n`);
		return socket;
	};

	// isOurs reports whether a connection of an Agent is to be replaced: not where
	// it goes to a path, or over a socket that is there, nor where Node does it.
	const isOurs = (agent, options) => options !== null && typeof options === 'object' && !options.socketPath && !options.socket &&
		!(agent && agent.options && agent.options.proxyEnv);

	// --- the http module

	const absolute = Symbol('mulligan: what stands before the path');
	const openPlain = http.Agent.prototype.createConnection;

	http.Agent.prototype.createConnection = function createConnection(options, ...rest) {
		const host = String((options && options.host) || 'localhost');
		const port = Number(options && options.port) || 80;
		const proxy = isOurs(this, options) && proxyFor('http:', host, port);
		if (!proxy) return openPlain.call(this, options, ...rest);
		const { keepAlive, keepAliveInitialDelay, noDelay, timeout, signal } = options;
		const socket = connect({ host: proxy.host, port: proxy.port, keepAlive, keepAliveInitialDelay, noDelay, timeout, signal });
		socket[absolute] = { origin: `http://${bracketed(host)}${port === 80 ? '' : `:${port}`}`, auth: proxy.auth };
		return socket;
	};

	// A request learns its socket before a byte of it is sent, but its head may have
	// been written down by then, and wait.
	const onSocket = http.ClientRequest.prototype.onSocket;
	http.ClientRequest.prototype.onSocket = function (socket, ...rest) {
		const to = socket && socket[absolute];
		if (to && typeof this.path === 'string' && (this.path.startsWith('/') || this.path === '*')) wholeURL(this, to);
		return onSocket.call(this, socket, ...rest);
	};

	const wholeURL = (req, to) => {
		const before = `${req.method} ${req.path} HTTP/1.1\r\n`;
		const path = req.path === '*' ? '' : req.path; // RFC 9112 3.2.4
		const after = `${req.method} ${to.origin}${path} HTTP/1.1\r\n` + (to.auth ? `Proxy-Authorization: ${to.auth}\r\n` : '');
		const put = (text) => (text.startsWith(before) ? after + text.slice(before.length) : text);
		if (!req._header) {
			const store = req._storeHeader;
			req._storeHeader = function (line, headers) {
				return store.call(this, put(line), headers);
			};
			return;
		}
		req._header = put(req._header);
		const first = req.outputData && req.outputData[0];
		if (first && typeof first.data === 'string') first.data = put(first.data);
	};

	// --- the https module

	// Tunnel is a stream to a server that is there at once: what is written waits
	// until the proxy has connected. Programs expect a socket from createConnection,
	// and not only later.
	class Tunnel extends Duplex {
		constructor(proxy, host, port) {
			super();
			this.waiting = null;
			this.socket = tunnel(proxy, host, port, (error, socket) => {
				if (error) {
					this.destroy(error);
					return;
				}
				socket.on('data', (chunk) => { if (!this.push(chunk)) socket.pause(); });
				socket.on('end', () => this.push(null));
				socket.on('error', (failed) => this.destroy(failed));
				socket.on('close', () => this.destroy());
				this.open = true;
				if (this.waiting) this.waiting();
			});
		}
		_read() {
			if (this.open) this.socket.resume();
		}
		_write(chunk, encoding, done) {
			if (this.open) this.socket.write(chunk, encoding, done);
			else this.waiting = () => this.socket.write(chunk, encoding, done);
		}
		_final(done) {
			if (this.open) this.socket.end(done);
			else this.waiting = () => this.socket.end(done);
		}
		_destroy(error, done) {
			this.socket.destroy();
			done(error);
		}
	}

	const openTLS = https.Agent.prototype.createConnection;
	https.Agent.prototype.createConnection = function createConnection(options, ...rest) {
		const host = String((options && options.host) || 'localhost');
		const port = Number(options && options.port) || 443;
		const proxy = isOurs(this, options) && proxyFor('https:', host, port);
		if (!proxy) return openTLS.call(this, options, ...rest);
		const stream = new Tunnel(proxy, host, port);
		const secure = openTLS.call(this, { ...options, path: undefined, socket: stream });
		// A connection that an Agent keeps for later must not keep the process.
		for (const name of ['ref', 'unref']) {
			const own = secure[name];
			secure[name] = function () {
				stream.socket[name]();
				return own.call(this);
			};
		}
		return secure;
	};

	// --- fetch

	const key = Symbol.for('undici.globalDispatcher.1');
	const stock = globalThis.fetch;
	if (knowsProxies || typeof stock !== 'function') return;
	let settled = false; // ours was put in place, or is not wanted

	const settle = () => {
		if (settled) return;
		settled = true;
		try {
			const mine = Object.getOwnPropertyDescriptor(globalThis, key);
			if (mine && mine.get) delete globalThis[key];
			void globalThis.Response; // loads Node's undici, which makes its dispatcher
			const made = globalThis[key];
			if (made && made.constructor.name === 'Agent') globalThis[key] = dispatcher(made.constructor);
		} catch {
			// fetch works as it did
		}
	};

	// dispatcher makes a dispatcher of undici's own kind whose connections are ours.
	const dispatcher = (Agent) => {
		const proxyOf = (origin) => {
			const url = new URL(origin);
			const host = url.hostname.replace(/^\[|\]$/g, '');
			return url.protocol === 'http:' && { url, proxy: proxyFor('http:', host, Number(url.port) || 80) };
		};
		class ThroughProxy extends Agent {
			dispatch(options, handler) {
				const to = options.origin && proxyOf(options.origin);
				if (!to || !to.proxy || !String(options.path).startsWith('/')) return super.dispatch(options, handler);
				return super.dispatch({
					...options, path: to.url.origin + options.path, headers: withAuth(options.headers, to.proxy.auth),
				}, handler);
			}
		}
		return new ThroughProxy({ connect: open });
	};

	// withAuth adds the proxy's credentials to headers in any of undici's forms.
	const withAuth = (headers, auth) => {
		if (!auth) return headers;
		if (Array.isArray(headers)) return [...headers, 'proxy-authorization', auth];
		const pairs = headers && typeof headers[Symbol.iterator] === 'function' ? [...headers] : Object.entries(headers || {});
		return Object.fromEntries([...pairs, ['proxy-authorization', auth]]);
	};

	// open is undici's connector.
	const open = ({ hostname, protocol, port, servername, localAddress }, done) => {
		const host = hostname.replace(/^\[|\]$/g, '');
		const secure = protocol === 'https:';
		const number = Number(port) || (secure ? 443 : 80);
		const proxy = proxyFor(protocol, host, number);
		const opened = (socket, event) => {
			socket.setNoDelay(true);
			const failed = (error) => {
				socket.removeListener(event, ready);
				done(error);
			};
			const ready = () => {
				socket.removeListener('error', failed);
				done(null, socket);
			};
			socket.once(event, ready).once('error', failed);
		};
		const overTLS = (socket) => opened(tls.connect({
			host, port: number, servername: servername || (net.isIP(host) ? '' : host), ALPNProtocols: ['http/1.1'], localAddress, ...(socket && { socket }),
		}), 'secureConnect');
		if (secure && proxy) {
			tunnel(proxy, host, number, (error, socket) => (error ? done(error) : overTLS(socket)));
		} else if (secure) {
			overTLS(null);
		} else {
			opened(connect(proxy ? { host: proxy.host, port: proxy.port } : { host, port: number, localAddress }), 'connect');
		}
	};

	// Whoever asks for the dispatcher is about to use it: a package of undici's own,
	// or Node's, which is being loaded then, and cannot be waited for but afterwards.
	if (Object.getOwnPropertyDescriptor(globalThis, key) === undefined) {
		Object.defineProperty(globalThis, key, {
			configurable: true,
			enumerable: false,
			get() {
				if (new Error().stack.includes('internal/deps/undici')) {
					process.nextTick(settle);
					return undefined;
				}
				settle();
				return globalThis[key];
			},
			set(value) {
				settled = true;
				Object.defineProperty(globalThis, key, { value, writable: true, enumerable: false, configurable: false });
			},
		});
	}
	Object.defineProperty(globalThis, 'fetch', {
		...Object.getOwnPropertyDescriptor(globalThis, 'fetch'),
		value: function fetch(...args) {
			settle();
			return stock.apply(this, args);
		},
	});
};

try {
	goThroughProxy();
} catch (error) { // the program never asked for this file: it is not to end by it
	process.emitWarning(`mulligan: HTTP does not go through the proxy: ${error.message}`);
}
