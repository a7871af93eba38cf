// The page in English and Chinese. A screen brings its own words from i18n/<screen>.js.
export const known = {
  en: {
    name: "English", studio: "studio", skip: "Skip to the screen",
    flow: "Flow", run: "Run", atlas: "Atlas", head: "Head", recompute: "Recompute", states: "States", lens: "Lens",
    tensors: "Tensors", edit: "Edit", compare: "Compare", train: "Train", screens: "Screens",
    model: "Model", text: "Text", ids: "Ids", pair: "Second text", target: "Target", examples: "Examples", choose: "choose…",
    textHint: "Type a text and press Enter", idsHint: "ids, such as 5 17 3", pairHint: "a second text, for a pair",
    targetHint: "empty: its own choice", go: "Look", language: "Language",
    theme: "Colours", auto: "auto", light: "light", dark: "dark",
    opening: "Opening the models…", working: "Running the model…", noModels: "There is no model here.", noModelsFix: "Start the studio with a folder: glassformer studio ./my-model",
    noText: "There is nothing to look at yet.", noTextFix: "Type a text above, or choose an example.",
    retry: "Try again", problem: "That did not work", unreachable: "The server does not answer. Is the studio still running?",
    dropped: "The stream broke off before its end.", busy: "The server is busy: too many requests are waiting.",
    gone: "This trace has expired: the server keeps it only for a while.", notHere: "There is no screen {0}.", noId: "This model has no tokenizer and reads ids: {0} is not a whole number.",
    copyPython: "Copy Python", exportAs: "Save as {0}", copied: "Copied.", tools: "Take along",
    attentionIsNot: "Attention shows where a head looked, not why the model answered as it did.",
    switchOff: "Switch this head off and see",
    nothingHere: "Nothing to show for this model", noModelNamed: "There is no model {0} here.",
    tokens: "tokens", layer: "layer", value: "value",
  },
  zh: {
    name: "中文", studio: "工作室", skip: "跳到内容",
    flow: "流程", run: "运行", atlas: "总览", head: "注意力头", recompute: "重算", states: "状态", lens: "透镜",
    tensors: "张量", edit: "编辑", compare: "比较", train: "训练", screens: "视图",
    model: "模型", text: "文本", ids: "编号", pair: "第二段文本", target: "目标文本", examples: "例子", choose: "选择…",
    textHint: "输入文本，按回车", idsHint: "编号，例如 5 17 3", pairHint: "成对输入的第二段文本",
    targetHint: "留空：由模型自己写", go: "查看", language: "语言",
    theme: "配色", auto: "自动", light: "浅色", dark: "深色",
    opening: "正在打开模型…", working: "模型运行中…", noModels: "这里没有模型。", noModelsFix: "启动时指定一个文件夹：glassformer studio ./my-model",
    noText: "还没有可看的内容。", noTextFix: "请在上面输入文本，或选择一个例子。",
    retry: "重试", problem: "出了问题", unreachable: "服务器没有应答。工作室还在运行吗？",
    dropped: "数据流在结束之前中断了。", busy: "服务器正忙：等待的请求太多。",
    gone: "这次记录已经过期：服务器只保留一段时间。", notHere: "没有名为 {0} 的视图。", noId: "这个模型没有分词器，只读编号：{0} 不是整数。",
    copyPython: "复制 Python", exportAs: "保存为 {0}", copied: "已复制。", tools: "带走",
    attentionIsNot: "注意力说明一个头看向哪里，并不说明模型为什么这样回答。",
    switchOff: "关掉这个头试试",
    nothingHere: "这个模型没有可显示的内容", noModelNamed: "这里没有模型 {0}。",
    tokens: "词元", layer: "层", value: "值",
  },
};
// Words in formulas and below the names of boxes, which the code has in English; whole phrases come first.
const FORMULAS = {
  zh: [
    [/scores where mask, else −∞/, "掩码处取分数，否则 −∞"], [/scores where real, else −∞/, "真实词元取分数，否则 −∞"],
    [/keep\[j\] and order\[i, j\]/, "真实[j] 且 次序[i, j]"], [/order\[i, j\] and /, "次序[i, j] 且 "],
    [/real tokens of x, then 0/, "x 的真实词元，其余为 0"], [/, 0 at padding/, "，填充处为 0"],
    [/the first real token of x/, "x 的第一个真实词元"], [/the last real token of x/, "x 的最后一个真实词元"],
    [/the largest of x over real tokens/, "x 在真实词元上的最大值"], [/the largest of x over time/, "x 在各词元上的最大值"],
    [/the mean of x over real tokens/, "x 在真实词元上的均值"], [/the sum of x over tokens/, "x 在各词元上的和"], [/mean of squares/, "平方的均值"],
    [/^input$/, "输入"], [/^text$/, "文本"], [/^answer$/, "回答"],
    [/\bmean\b/, "均值"], [/\bvariance\b/, "方差"], [/\btoken\b/, "词元"], [/\bposition\b/, "位置"], [/\bsegment\b/, "段"],
    [/\bpattern\b/, "份额"], [/\bmemory\b/, "记忆"], [/\bbucket\b/, "分桶"],
  ],
};
export const languages = Object.keys(known);
let language = "en";

export function speak(wanted) {
  const own = navigator.language?.startsWith("zh") ? "zh" : "en";
  language = languages.includes(wanted) ? wanted : own;
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  return language;
}

export function learn({ en, zh }) {
  Object.assign(known.en, en);
  Object.assign(known.zh, zh);
}

const keys = new Map(); // words that were said -> their key

// What words were said by, for an id that is the same in every language.
export const keyOf = (words) => keys.get(words) ?? words;

// The words of a key, with {0}, {1} … filled in; a key that nobody knows is shown as it is.
export function t(key, ...values) {
  const words = known[language][key] ?? known.en[key] ?? key;
  keys.set(words, key);
  return values.reduce((text, value, place) => text.replaceAll(`{${place}}`, value), words);
}

// A formula with its words in the language of the page.
export const worded = (text) => (FORMULAS[language] ?? []).reduce((said, [from, to]) => said.replace(from, to), text);

export const nameOf = (code) => known[code].name;
