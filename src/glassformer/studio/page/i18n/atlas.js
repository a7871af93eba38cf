import * as shared from "../attention.js";

export const en = {
  ...shared.en,
  mosaic: "{0}: {1} × {2} matrices. Arrow keys move, Enter opens.", atlasHint: "Every tile is one head: who looks (down) at whom (across). Click one to open it, or use the arrow keys and Enter.",
  atlasPooled: "A point of a tile is the strongest of {0} × {1} weights.", alignmentHint: "Every word written (down) and what was read for it (across). Click to open it.", headsAcross: "head →", layersDown: "← layer",
};
export const zh = {
  ...shared.zh,
  mosaic: "{0}：{1} × {2} 个矩阵。方向键移动，回车打开。", atlasHint: "每一块是一个头：谁（竖）看向谁（横）。点击打开，也可用方向键和回车。",
  atlasPooled: "每一点是 {0} × {1} 个权重中最强的一个。", alignmentHint: "写出的每个词（竖），以及写它时所读的词（横）。点击打开。", headsAcross: "头 →", layersDown: "← 层",
};
