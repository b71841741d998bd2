// What widgets need from the page that they are in, and cannot say from a kernel. It knows ours by a class and a mark.
//
// - A widget whose kernel is gone is dead: it is drawn, or "loading", and does nothing. Its output has HTML to stand in.
// - The handle of a slider has no name and says the number of its stop: it gets the label and the readout. What says
//   what has just happened is read aloud.
// - What the keyboard was on may be taken away by what it did, such as Run: then it goes on from the cell.
// - Titles of tabs are as wide as what they say, and go on in a second row where one is too narrow.
// - No control is wider than its page, nor is its label all that there is of it, however long a name is.
// - The arrow of a list is black, also on black: where the theme is dark it is a light one.
// - "Copy code" puts the code beside it on the clipboard; what a kernel has to write first is copied when it comes.
'use strict';

const VIEW = 'application/vnd.jupyter.widget-view+json';
const OURS = 'dpnotebook';
const SOON = 100; // ms after a change of the page in which others are waited for
const ALLOWED = 5000; // ms after a click in which browsers let a page write to the clipboard
const PATIENCE = 3000; // ms in which a widget that is loading may still come
const ARROW = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 18 18"><path fill="#ddd" d="M5.2 5.9 9 9.7l3.8-3.8L14 7.1l-5 5-5-5z"/></svg>';
const LOOKS = `
  .${OURS} .jupyter-widget-tab > .lm-TabBar .lm-TabBar-content { flex-wrap: wrap; }
  .${OURS} .jupyter-widget-tab > .lm-TabBar .lm-TabBar-tab { flex: 0 0 auto; max-width: 100%; }
  .${OURS} .widget-inline-hbox, .${OURS} .jupyter-button { max-width: calc(100% - 4px); }
  .${OURS} .widget-inline-hbox > .widget-label { max-width: 60%; }
  .${OURS} .widget-slider > .widget-label { max-width: 35%; }
  [data-jp-theme-light='false'] .${OURS} { --jp-widgets-dropdown-arrow: url('data:image/svg+xml,${encodeURIComponent(ARROW)}'); }
`;

export const activate = tracker => {
  const style = document.createElement('style');
  style.textContent = LOOKS;
  document.head.append(style);

  const standIns = new WeakMap(); // by the node of a widget's output, what is shown in its place
  const waited = new WeakMap(); // since when an output says that it is loading

  const isDead = node => {
    if (node.querySelector('.jupyter-widgets-disconnected') || node.matches('.jupyter-widgets-disconnected')) {
      return true; // drawn, of a kernel that was restarted
    }
    const text = node.childElementCount ? '' : node.textContent;
    if (text.startsWith('Loading widget')) {
      const since = waited.get(node) ?? Date.now();
      waited.set(node, since);
      if (Date.now() - since < PATIENCE) {
        setTimeout(soon, PATIENCE);
        return false;
      }
      return true;
    }
    return text.startsWith('Error displaying widget');
  };

  const standIn = (panel, output, node) => {
    const renderer = panel.content.rendermime.createRenderer('text/html');
    void renderer.renderModel(output);
    renderer.addClass('jp-OutputArea-output');
    renderer.node.setAttribute('role', 'status'); // read aloud when it comes
    node.insertAdjacentElement('afterend', renderer.node);
    standIns.set(node, renderer);
    node.style.display = 'none';
  };

  const look = () => {
    tracker.forEach(panel => {
      for (const cell of panel.content.widgets) {
        const outputs = cell.outputArea?.model;
        for (let i = 0; i < (outputs?.length ?? 0); i++) {
          const output = outputs.get(i);
          if (!(VIEW in output.data) || !output.metadata?.[OURS]) {
            continue;
          }
          const node = cell.outputArea.widgets[i]?.node.querySelector('.jp-OutputArea-output:not([role=status])');
          const instead = node && standIns.get(node);
          if (!node || isDead(node) === !!instead) {
            continue;
          }
          if (instead) {
            instead.node.remove();
            instead.dispose();
            standIns.delete(node);
            node.style.display = '';
          } else {
            standIn(panel, output, node);
          }
        }
      }
    });
    if (used && !used.node.isConnected && document.activeElement === document.body) {
      const { panel, cell } = used;
      used = null;
      const index = panel.content.widgets.indexOf(cell);
      if (index >= 0 && tracker.currentWidget === panel) {
        panel.content.activeCellIndex = index;
        panel.content.mode = 'command';
        panel.content.activate();
      }
    }
  };

  const nameControls = () => {
    for (const message of document.querySelectorAll('.dpnotebook-says')) {
      say(message, 'role', 'status'); // a polite live region
    }
    for (const control of document.querySelectorAll(`.${OURS} :is(select, button, input, [tabindex])`)) {
      say(control, 'data-lm-suppress-shortcuts', 'true'); // else a letter that is typed in a list cuts the cell
    }
    for (const handle of document.querySelectorAll(`.${OURS} .noUi-handle`)) {
      const slider = handle.closest('.jupyter-widgets');
      say(handle, 'aria-label', slider?.querySelector('.widget-label')?.textContent || 'value');
      say(handle, 'aria-valuetext', slider?.querySelector('.widget-readout')?.textContent);
    }
  };
  const say = (node, name, text) => {
    if (text && node.getAttribute(name) !== text) {
      node.setAttribute(name, text);
    }
  };

  let timer = 0;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(look, SOON);
  };

  let used = null; // what of ours the keyboard was on last, and in which cell
  document.addEventListener('focusin', ({ target }) => {
    used = null;
    const panel = target.closest(`.${OURS}`) && tracker.currentWidget;
    const cell = panel?.content.widgets.find(one => one.node.contains(target));
    if (cell) {
      used = { node: target, panel, cell };
    }
  });

  document.addEventListener('click', ({ target }) => {
    const code = target.closest('.dpnotebook-copy')?.closest('.dpnotebook-code')?.querySelector('textarea');
    if (target.closest('.dpnotebook-copies')) {
      wanted = Date.now();
    }
    if (code) {
      void navigator.clipboard?.writeText(code.value).catch(() => code.select());
    }
  });

  let wanted = 0; // when a text was last asked for that is to be copied
  const copyOut = () => {
    for (const clip of document.querySelectorAll('.dpnotebook-clip:not([data-seen])')) {
      clip.dataset.seen = 'true';
      if (Date.now() - wanted < ALLOWED) {
        wanted = 0;
        navigator.clipboard?.writeText(clip.querySelector('pre').textContent).then(
          () => (clip.querySelector('span').textContent = 'Copied to the clipboard; the box has it too.'),
          () => undefined // not allowed: the words say where it is
        );
      }
    }
  };

  const changed = () => {
    nameControls(); // at once, before a screen reader says the number
    copyOut();
    soon();
  };
  new MutationObserver(changed).observe(document.body, {
    childList: true,
    subtree: true,
    attributes: true,
    attributeFilter: ['class', 'aria-valuetext']
  });
};
