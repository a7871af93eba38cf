import * as shared from "../attention.js";

export const en = {
  ...shared.en,
  previousHead: "Previous head", nextHead: "Next head", pairs: "Pairs", all: "all", threshold: "Lines from {0} on", looks: "{0} looks at {1}", writes: "{0} was written looking at {1}",
  weight: "weight", strongestRow: "Strongest from here", statistics: "This head", matrixLabel: "{0}, {1} × {2} weights. Arrow keys move, Enter recomputes, Escape goes back.",
  arcsLabel: "The same weights as lines between tokens", back: "All heads", exactHint: "exact, as float32",
  nothingFiltered: "No token is on this side.",
};
export const zh = {
  ...shared.zh,
  previousHead: "上一个头", nextHead: "下一个头", pairs: "句对", all: "全部", threshold: "连线从 {0} 起", looks: "{0} 看向 {1}", writes: "写出 {0} 时看向 {1}",
  weight: "权重", strongestRow: "从这里看得最多", statistics: "这个头", matrixLabel: "{0}，{1} × {2} 个权重。方向键移动，回车重算，Esc 返回。",
  arcsLabel: "同样的权重，画成词元之间的连线", back: "所有头", exactHint: "float32 精确值",
  nothingFiltered: "这一侧没有词元。",
};
