// What the cell that is being typed would cost, in the status bar: the kernel plans, this asks and shows.
//
// Written by hand, so that there is nothing to build: JupyterLab takes from `window._JUPYTERLAB` an object with `init`,
// which is given the packages that it shares, and `get`, which returns the plugin.
(() => {
  'use strict';

  const HERE = 'dpnotebook.here'; // a comm that the kernel opens: the package was imported there
  const TARGET = 'dpnotebook.estimate'; // the comm of estimates, which is opened here
  const DELAY = 200; // ms after the last key: shorter asks between keys, longer is felt
  const LONGEST = 20000; // characters of a cell that is asked about; the kernel refuses more
  const SUBSHELL = 2000; // ms to wait for a subshell before asking without one

  const beside = new URL('controls.js', document.currentScript.src).href;

  let shared;
  const load = async name => {
    const [version] = Object.values(shared[name] ?? {});
    return version && (await version.get())();
  };

  const activate = (tracker, bar, Widget) => {
    const item = new Widget();
    item.addClass('dpnotebook-estimate');
    item.node.setAttribute('role', 'status'); // a polite live region: read aloud when there is something new
    Object.assign(item.node.style, {
      padding: '0 8px',
      lineHeight: '24px',
      maxWidth: '50vw',
      overflow: 'hidden',
      textOverflow: 'ellipsis',
      whiteSpace: 'nowrap',
      fontSize: 'var(--jp-ui-font-size1)',
      fontWeight: 600 // beside what the bar says all the time
    });
    item.hide();
    bar.registerStatusItem('dpnotebook:estimate', { item, align: 'left', rank: 500 });

    let texts = ['']; // the same estimate, shorter and shorter
    const fit = () => {
      for (const text of texts) {
        item.node.textContent = text; // never HTML: names of tables and columns are the user's
        if (item.node.scrollWidth <= item.node.clientWidth) {
          return;
        }
      }
    };
    const show = (text, title, shorter = []) => {
      texts = [text, ...shorter];
      item.setHidden(!text);
      item.node.style.opacity = 1;
      item.node.title = title;
      fit();
    };
    window.addEventListener('resize', fit);

    const comms = new WeakMap(); // by connection to a kernel, the comm that its estimates come by
    let asked = ''; // the number of what was asked last: other answers are late, or another page's
    let count = 0;
    let timer = 0;

    const ask = () => {
      const cell = tracker.activeCell?.model;
      const kernel = tracker.currentWidget?.sessionContext.session?.kernel;
      const comm = kernel && comms.get(kernel);
      const source = cell?.type === 'code' ? cell.sharedModel.getSource() : '';
      if (!comm || comm.isDisposed || !source.trim() || source.length > LONGEST) {
        asked = '';
        show('', '');
        return;
      }
      asked = `${kernel.clientId}:${++count}`; // two pages of one notebook hear each other's answers
      comm.send({ number: asked, cell: source });
    };
    const soon = () => {
      item.node.style.opacity = 0.5; // what stands there is of an earlier text
      clearTimeout(timer);
      timer = setTimeout(ask, DELAY);
    };

    const opening = new WeakSet();
    const open = async kernel => {
      if (opening.has(kernel) || comms.get(kernel)?.isDisposed === false) {
        return;
      }
      opening.add(kernel);
      const comm = kernel.createComm(TARGET);
      comm.onMsg = ({ content: { data } }) => {
        if (data.number === asked) {
          show(data.text, data.title, data.shorter);
        }
      };
      await kernel.info;
      if (kernel.supportsSubshells && comm.subshellStarted) {
        // What is sent before goes to the kernel's main thread, as all that follows it: it would wait for running cells.
        const late = new Promise(resolve => setTimeout(resolve, SUBSHELL));
        await Promise.race([comm.subshellStarted, late]).catch(() => undefined);
      }
      opening.delete(kernel);
      if (!comm.isDisposed) {
        comm.open({});
        comms.set(kernel, comm);
        soon();
      }
    };

    const seen = new WeakSet();
    const watch = kernel => {
      if (!kernel || seen.has(kernel)) {
        return;
      }
      seen.add(kernel);
      kernel.registerCommTarget(HERE, comm => {
        comm.onClose = () => comms.get(kernel)?.dispose(); // the extension was unloaded
        void open(kernel).catch(() => undefined);
      });
      // A page that was loaded anew, and a second one, find a kernel that has said already that it is here.
      kernel
        .requestCommInfo({ target_name: HERE })
        .then(reply => Object.keys(reply.content.comms ?? {}).length && open(kernel))
        .catch(() => undefined); // the kernel is gone
    };

    let watched = null;
    tracker.activeCellChanged.connect((_, cell) => {
      watched?.contentChanged.disconnect(soon);
      watched = cell?.model ?? null;
      watched?.contentChanged.connect(soon);
      show('', ''); // of another cell
      soon();
    });
    tracker.widgetAdded.connect((_, panel) => {
      panel.sessionContext.kernelChanged.connect((__, change) => watch(change.newValue));
      watch(panel.sessionContext.session?.kernel);
    });
    return soon;
  };

  // A front end without a status bar, as Notebook 7, has nowhere to show an estimate; that the kernel says it is here is
  // heard all the same, or the console would name a comm that nobody knows.
  const hear = tracker => {
    const attend = kernel => kernel?.registerCommTarget(HERE, () => undefined);
    tracker.widgetAdded.connect((_, panel) => {
      panel.sessionContext.kernelChanged.connect((__, change) => attend(change.newValue));
      attend(panel.sessionContext.session?.kernel);
    });
  };

  const makePlugin = async () => {
    const [notebook, status, lumino] = await Promise.all(
      ['@jupyterlab/notebook', '@jupyterlab/statusbar', '@lumino/widgets'].map(load)
    );
    return {
      id: 'dpnotebook:estimate',
      description: 'Shows what a differentially private cell would cost.',
      autoStart: true,
      // Where the front end has no status bar, or no notebooks, there is nothing to show and nothing to say.
      optional: notebook ? [notebook.INotebookTracker, ...(status ? [status.IStatusBar] : [])] : [],
      activate: (_, tracker, bar) => {
        if (tracker && bar) {
          const soon = activate(tracker, bar, lumino.Widget);
          notebook.NotebookActions.executed.connect(soon); // a cell may have made what another asks about
        } else if (tracker) {
          hear(tracker);
        }
      }
    };
  };

  const makeControls = async () => {
    const [notebook, { activate: attend }] = await Promise.all([load('@jupyterlab/notebook'), import(beside)]);
    return {
      id: 'dpnotebook:controls',
      description: 'Names controls, and shows what can be read where a widget is dead.',
      autoStart: true,
      optional: notebook ? [notebook.INotebookTracker] : [],
      activate: (_, tracker) => tracker && attend(tracker)
    };
  };

  // Who displays a widget that is still being loaded looks for it for two seconds, and gives it up without a last look:
  // on a page that was busy meanwhile it may be there by then, and would be missing for good.
  const lookAgain = manager => {
    const find = manager.get_model.bind(manager);
    manager.get_model = id =>
      find(id).catch(error => {
        if (manager.has_model(id)) {
          return find(id);
        }
        throw error;
      });
  };

  const makePatience = async () => ({
    id: 'dpnotebook:patience',
    description: 'Shows widgets of Voila also where its page was too busy to find them in time.',
    autoStart: true,
    // Not waited for: of a kernel that is gone there is never a manager of widgets.
    activate: app => void app.widgetManagerPromise?.promise.then(lookAgain)
  });

  (window._JUPYTERLAB ??= {}).dpnotebook = {
    init: scope => {
      shared = scope;
    },
    get: async () => {
      // Each may be there without the others.
      const made = await Promise.allSettled([makePlugin(), makeControls(), makePatience()]);
      const plugins = made.filter(({ status }) => status === 'fulfilled').map(({ value }) => value);
      return () => ({ __esModule: true, default: plugins });
    }
  };
})();
