// The page: shows the conversation, sends what is typed, stops an answer, asks again from an edited
// message.
(() => {
  const at = (id) => document.getElementById(id);
  const {state} = conversation;
  const settings = ['system', 'temperature', 'most', 'seed'];
  const names = {user: 'You', assistant: served.model, system: 'System'};
  let running = null;  // an AbortController while an answer comes
  let edited = null;   // the number of the message that is edited

  function showMessage(message, index) {
    const article = document.createElement('article');
    article.className = message.role;
    article.classList.toggle('edited', index === edited);
    const head = document.createElement('h2');
    head.append(names[message.role] ?? message.role);
    if (message.role === 'user' && !running) {
      const edit = document.createElement('button');
      edit.textContent = 'Edit';
      edit.addEventListener('click', () => beginEdit(index));
      head.append(edit);
    }
    const text = document.createElement('p');
    text.textContent = message.content;
    article.append(head, text);
    if (served.views && message.id) {
      const look = document.createElement('button');
      look.className = 'look';
      look.textContent = 'Look inside';
      look.addEventListener('click', () => lookInside(message.id));
      head.append(look);
    }
    if (message.end) {
      const end = document.createElement('span');
      end.className = 'end';
      end.textContent = message.end;
      article.append(end);
    }
    return article;
  }

  function show() {
    at('messages').replaceChildren(...state.messages.map(showMessage));
    at('messages').scrollTop = at('messages').scrollHeight;
    at('stop').hidden = !running;
    at('send').hidden = running !== null;
    at('cancel').hidden = edited === null;
    at('new').disabled = running !== null;
    at('send').textContent = edited === null ? 'Send' : 'Send instead';
    at('state').textContent = running ? 'answering…' : '';
  }

  function showError(text) {
    at('error').textContent = text;
    at('error').hidden = !text;
  }

  // The page of an answer is asked for like all else, because a link could not send the key.
  async function lookInside(id) {
    const tab = window.open('', '_blank');
    try {
      if (!tab) throw new Error('the browser opens no other tab');
      const html = await readView(id, conversation.key);
      tab.location = URL.createObjectURL(new Blob([html], {type: 'text/html'}));
      showError('');
    } catch (error) {
      tab?.close();
      showError(error.message);
    }
  }

  function beginEdit(index) {
    edited = index;
    at('text').value = state.messages[index].content;
    at('text').focus();
    show();
  }

  function endEdit() {
    edited = null;
    at('text').value = '';
    show();
  }

  // Adds an event of the stream to the answer, and shows its text.
  function take(answer, event) {
    const choice = event.choices[0];
    answer.id = event.id;
    // Thoughts are shown until the answer begins.
    answer.thoughts = (answer.thoughts ?? '') + (choice?.delta?.reasoning_content ?? '');
    if (choice?.delta?.content || choice?.delta?.reasoning_content) {
      answer.content += choice.delta.content ?? '';
      at('messages').lastElementChild.querySelector('p').textContent = answer.content || answer.thoughts;
      at('messages').scrollTop = at('messages').scrollHeight;
    }
    if (choice?.finish_reason === 'length') answer.end = 'cut: it has as many tokens as it may';
    if (event.usage) {
      const {completion_tokens: n, prompt_tokens: p, prompt_tokens_details: d} = event.usage;
      at('state').title = `${p} tokens asked (${d.cached_tokens} known), ${n} answered`;
    }
  }

  async function ask() {
    const body = conversation.request();
    const answer = {role: 'assistant', content: '', end: ''};
    state.messages.push(answer);
    running = new AbortController();
    showError('');
    show();
    try {
      await streamAnswer(body, conversation.key, running.signal, (event) => take(answer, event));
    } catch (error) {
      if (error.name === 'AbortError') answer.end = 'stopped';
      else showError(error.message);
      if (!answer.content) state.messages.pop();
    }
    running = null;
    conversation.save();
    show();
  }

  at('ask').addEventListener('submit', (event) => {
    event.preventDefault();
    const content = at('text').value;
    if (running || !content.trim()) return;
    if (edited !== null) state.messages.length = edited;
    edited = null;
    state.messages.push({role: 'user', content});
    at('text').value = '';
    conversation.save();
    ask();
  });
  at('text').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    at('ask').requestSubmit();
  });
  at('stop').addEventListener('click', () => running?.abort());
  at('cancel').addEventListener('click', endEdit);
  at('new').addEventListener('click', () => {
    state.messages.length = 0;
    conversation.save();
    showError('');
    endEdit();
  });
  for (const name of settings) {
    at(name).value = state[name];
    at(name).addEventListener('change', () => {
      state[name] = at(name).value;
      conversation.save();
    });
  }
  at('key').value = conversation.key;
  at('key').addEventListener('change', () => { conversation.key = at('key').value; });
  at('key-label').hidden = !served.needs_key;
  at('model').textContent = document.title = served.model;
  show();
})();
