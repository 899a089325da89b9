"""A page of ng-run in headless Chromium: what the tests ask of it and do to it."""
import json
import pathlib
import shutil
import sys
import time

try:
    from selenium import webdriver
    from selenium.common.exceptions import NoAlertPresentException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError as error:
    print(f"needs the Debian package python3-selenium: {error}")
    sys.exit(77)

DRIVER = shutil.which("chromedriver")
if DRIVER is None or shutil.which("chromium") is None:
    print("needs the Debian packages chromium and chromium-driver")
    sys.exit(77)

KEYS = {"Left": Keys.ARROW_LEFT, "Right": Keys.ARROW_RIGHT, "Up": Keys.ARROW_UP, "Down": Keys.ARROW_DOWN,
        "Enter": Keys.ENTER, "Escape": Keys.ESCAPE, "Tab": Keys.TAB}


class Browser:
    def __init__(self, downloads):
        self.downloads = downloads
        options = webdriver.ChromeOptions()
        # As root Chromium runs only without its sandbox, and a container's /dev/shm is small.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.set_capability("unhandledPromptBehavior", "ignore")
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.driver.set_script_timeout(300)

    def quit(self):
        self.driver.quit()

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.settle()

    def open(self, path, chosen=""):
        self.driver.get("about:blank")  # or else only the hash changes
        self.driver.get(f"{pathlib.Path(path).as_uri()}#{chosen}")
        self.settle()

    def start_again(self, path, chosen):
        """As `open`, but where the page is open only its address changes, which is quicker."""
        if self.driver.current_url.split("#")[0] != pathlib.Path(path).as_uri():
            return self.open(path, chosen)
        self.js("""document.activeElement.blur();
            document.querySelectorAll('dialog').forEach((dialog) => dialog.close());
            document.querySelectorAll('*').forEach((element) => { element.scrollTop = 0; });
            showPair(null);
            clearTimeout(hashTimer);
            history.replaceState(null, '', '#' + arguments[0]);
            choose(stateOfHash());""", chosen)
        self.settle()

    def reload(self):
        self.driver.refresh()
        self.settle()

    def settle(self):
        """Until the page has drawn what was asked for."""
        self.driver.execute_async_script("""const done = arguments[0];
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));""")

    def wait(self, condition, seconds=20):
        """Until a JavaScript expression holds."""
        end = time.monotonic() + seconds
        while not self.js(f"return {condition}"):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.01)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def key(self, *keys):
        """To what has the focus."""
        actions = ActionChains(self.driver, duration=0)
        for key in keys:
            actions.send_keys(KEYS.get(key, key))
        actions.perform()

    def find(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def click(self, css):
        self.find(css).click()

    def text(self, css):
        return self.js("return document.querySelector(arguments[0]).textContent", css)

    def texts(self, css):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", css)

    def select(self, css, value):
        self.js("""const select = document.querySelector(arguments[0]);
            select.value = arguments[1];
            select.dispatchEvent(new Event('change'));""", css, value)

    def hover(self, css, x, y):
        """The pointer at (x, y) of an element, from its upper left corner."""
        element = self.find(css)
        size = element.size
        ActionChains(self.driver, duration=0).move_to_element_with_offset(
            element, round(x - size["width"] / 2), round(y - size["height"] / 2)).perform()

    def has_dialog(self):
        try:
            self.driver.switch_to.alert
            return True
        except NoAlertPresentException:
            return False

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that were asked for since the last call, but for those of files."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:", "about:", "chrome:")):
                    found.append(url)
        return found

    # The heat map.

    def cells(self):
        """[queries][keys] of the colours [red, green, blue] in the middles of the map's cells."""
        return self.js("""const {left, above, wide, high, scale, context, canvas} = map;
            const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
            const T = attention.T;
            const at = (query, key) => {
              const x = Math.floor((left + (key + 0.5) * wide / T) * scale);
              const y = Math.floor((above + (query + 0.5) * high / T) * scale);
              return [...data.slice(4 * (y * canvas.width + x)).slice(0, 3)];
            };
            return Array.from({length: T}, (_, q) => Array.from({length: T}, (_, k) => at(q, k)));""")

    def cell_place(self, query, key):
        """Where a cell lies on the map's canvas."""
        return self.js("""const [query, key] = arguments;
            return [map.left + (key + 0.5) * map.wide / attention.T,
                    map.above + (query + 0.5) * map.high / attention.T];""", query, key)

    def hover_cell(self, query, key):
        self.hover("#map", *self.cell_place(query, key))
        return self.text("#pair")
