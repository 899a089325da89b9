// What has been said, and what is set. Both are kept in the browser, so that a page that is loaded
// again goes on where it was. The key is kept until the tab is closed.
const conversation = (() => {
  const kPlace = 'ng.conversation';
  const kKeyPlace = 'ng.key';
  const empty = () => ({messages: [], system: '', temperature: '', most: '', seed: ''});

  function read() {
    try {
      return {...empty(), ...JSON.parse(localStorage.getItem(kPlace) ?? '{}')};
    } catch {
      return empty();
    }
  }

  const state = read();
  return {
    state,
    save() { localStorage.setItem(kPlace, JSON.stringify(state)); },
    get key() { return sessionStorage.getItem(kKeyPlace) ?? ''; },
    set key(value) { sessionStorage.setItem(kKeyPlace, value); },
    // The body of the request that asks for the next answer.
    request() {
      const messages = state.messages.map(({role, content}) => ({role, content}));
      if (state.system) messages.unshift({role: 'system', content: state.system});
      const body = {model: served.model, messages, stream: true, stream_options: {include_usage: true}};
      if (state.temperature !== '') body.temperature = Number(state.temperature);
      if (state.most !== '') body.max_tokens = Number(state.most);
      if (state.seed !== '') body.seed = Number(state.seed);
      return body;
    },
  };
})();
