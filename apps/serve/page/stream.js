// A response that is no error. Throws an Error with the server's words, or what fetch throws when it was
// stopped.
async function request(path, key, options = {}) {
  const headers = {...options.headers};
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(path, {...options, headers});
  if (!response.ok) {
    const failed = await response.json().catch(() => null);
    throw new Error(failed?.error?.message ?? `the server answers ${response.status}`);
  }
  return response;
}

// The page that shows an answer's tokens.
async function readView(id, key) {
  return (await request(`/view/${id}`, key)).text();
}

// Asks for an answer and hands out its events as they come. `told` gets each one. Throws an Error
// with the server's words, or what fetch throws when it was stopped.
async function streamAnswer(body, key, signal, told) {
  const response = await request('/v1/chat/completions', key, {
    method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body), signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) throw new Error('the answer broke off');
    text += value;
    let end;
    while ((end = text.indexOf('\n\n')) >= 0) {
      const data = text.slice('data: '.length, end);
      text = text.slice(end + 2);
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      told(event);
    }
  }
}
