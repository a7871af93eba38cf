"""The words of the micro-world, in three languages: what there is, what it is called, and what grammar needs to know.

A row of a table is one meaning; its columns are English, German and Chinese forms.
"""

from collections.abc import Iterator, Sequence

from glassformer.data.microworld.world import (
    Adjective,
    Chance,
    City,
    Item,
    Job,
    Organisation,
    Person,
    Portion,
    Thing,
    Venue,
    Words,
)


def rows(table: str) -> Iterator[list[str]]:
    """The cells of each line of a table."""
    return ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines())


def triples(table: str) -> list[Words]:
    """A table of nothing but words."""
    return [Words(*row) for row in rows(table)]


def verses(text: str) -> list[Words]:
    """Longer texts: three lines each, English, German and Chinese, then an empty one."""
    blocks = text.strip().split("\n\n")
    return [Words(*map(str.strip, block.strip().splitlines())) for block in blocks]


def same(text: str) -> list[Words]:
    """Names that English and German spell alike: 'Anna 安娜, Tom 汤姆'."""
    return [Words(latin, latin, chinese) for latin, chinese in (name.rsplit(" ", 1) for name in text.split(", "))]


WOMEN = same(
    "Anna 安娜, Maria 玛丽亚, Lena 莱娜, Lisa 丽莎, Emma 艾玛, Sophie 索菲, Julia 朱莉娅, Nina 妮娜, Clara 克拉拉, "
    "Laura 劳拉, Sarah 萨拉, Eva 伊娃, Helena 海伦娜, Alice 爱丽丝, Mia 米娅, Florence 弗洛伦斯, Victoria 维多利亚"
)
MEN = same(
    "Tom 汤姆, Paul 保罗, Peter 彼得, David 大卫, Max 马克斯, Felix 菲利克斯, Oskar 奥斯卡, Leo 利奥, Jonas 约纳斯, "
    "Simon 西蒙, Martin 马丁, Daniel 丹尼尔, Lukas 卢卡斯, Erik 埃里克, Robert 罗伯特, Hugo 雨果, Austin 奥斯汀"
)
FAMILIES = same(
    "Weber 韦伯, Miller 米勒, Brown 布朗, Fischer 费舍尔, Wagner 瓦格纳, Bauer 鲍尔, Klein 克莱因, Smith 史密斯, "
    "Stone 斯通, Hill 希尔, Berger 贝格尔, London 伦敦"
)
# Some names are a person's, a city's and a company's: only the sentence tells which.
CITIES = [
    City(names)
    for names in same(
        "Berlin 柏林, London 伦敦, Paris 巴黎, Hamburg 汉堡, Madrid 马德里, New York 纽约, Dublin 都柏林, Oslo 奥斯陆, "
        "San Francisco 旧金山, Austin 奥斯汀, Victoria 维多利亚, Amsterdam 阿姆斯特丹"
    )
    + triples("""
        Vienna    | Wien      | 维也纳
        Rome      | Rom       | 罗马
        Beijing   | Peking    | 北京
        Shanghai  | Schanghai | 上海
        Munich    | München   | 慕尼黑
        Zurich    | Zürich    | 苏黎世
        Prague    | Prag      | 布拉格
        Lisbon    | Lissabon  | 里斯本
        Athens    | Athen     | 雅典
        Tokyo     | Tokio     | 东京
        Cape Town | Kapstadt  | 开普敦
        Hong Kong | Hongkong  | 香港
        Florence  | Florenz   | 佛罗伦萨
    """)
]
COMPANY_NAMES = same(
    "Nova 诺瓦, Orion 奥利安, Delta 德尔塔, Aurora 奥罗拉, Atlas 阿特拉斯, Luna 露娜, Weber 韦伯, Klein 克莱因, "
    "Wagner 瓦格纳, Berlin 柏林, Paris 巴黎, London 伦敦"
)
COMPANY_KINDS = same(
    "Motors 汽车公司, Airlines 航空公司, Films 电影公司, Foods 食品公司, Media 传媒公司, Games 游戏公司, Books 图书公司"
)

VENUES = {
    row[0]: Venue(Words(row[1], row[3], row[5]), Words(row[2], row[4], row[6]))
    for row in rows("""
    park    | in the park     | to the park       | im Park               | in den Park        | 公园里   | 公园
    market  | at the market   | to the market     | auf dem Markt         | auf den Markt      | 市场上   | 市场
    library | in the library  | to the library    | in der Bibliothek     | in die Bibliothek  | 图书馆里 | 图书馆
    station | at the station  | to the station    | am Bahnhof            | zum Bahnhof        | 火车站   | 火车站
    museum  | in the museum   | to the museum     | im Museum             | ins Museum         | 博物馆里 | 博物馆
    café    | in the café     | to the café       | im Café               | ins Café           | 咖啡馆里 | 咖啡馆
    garden  | in the garden   | into the garden   | im Garten             | in den Garten      | 花园里   | 花园
    beach   | on the beach    | to the beach      | am Strand             | an den Strand      | 海滩上   | 海滩
    lake    | by the lake     | to the lake       | am See                | an den See         | 湖边     | 湖边
    dinner  | in a restaurant | to a restaurant   | in einem Restaurant   | in ein Restaurant  | 一家餐馆里 | 一家餐馆
    hotel   | in the hotel    | to the hotel      | im Hotel              | ins Hotel          | 酒店里   | 酒店
    office  | in the office   | to the office     | im Büro               | ins Büro           | 办公室里 | 办公室
    zoo     | at the zoo      | to the zoo        | im Zoo                | in den Zoo         | 动物园里 | 动物园
    shop    | in a small shop | to a small shop | in einem kleinen Laden | in einen kleinen Laden | 一家小店里 | 小店
    bridge  | on the bridge   | to the bridge     | auf der Brücke        | zur Brücke         | 桥上     | 桥边
    airport | at the airport  | to the airport    | am Flughafen          | zum Flughafen      | 机场     | 机场
    school  | at the school   | to the school     | in der Schule         | zur Schule         | 学校里   | 学校
    square  | in the square   | to the square     | auf dem Platz         | zum Platz          | 广场上   | 广场
    """)
}

ADJECTIVES = {
    words.en: Adjective(words)
    for words in triples("""
    red       | rot     | 红色的
    blue      | blau    | 蓝色的
    green     | grün    | 绿色的
    yellow    | gelb    | 黄色的
    black     | schwarz | 黑色的
    white     | weiß    | 白色的
    brown     | braun   | 棕色的
    old       | alt     | 旧
    new       | neu     | 新
    small     | klein   | 小
    big       | groß    | 大
    thick     | dick    | 厚
    long      | lang    | 长
    beautiful | schön   | 漂亮的
    expensive | teur    | 昂贵的
    cheap     | billig  | 便宜的
    """)
}
GROUPS = {
    "colour": "red blue green yellow black white brown",
    "fur": "black white brown small big",
    "age": "old new",
    "size": "small big",
    "value": "beautiful expensive cheap",
}


def adjectives(cell: str) -> tuple[Adjective, ...]:
    """The adjectives of groups or single ones."""
    names = " ".join(GROUPS.get(name, name) for name in cell.split())
    return tuple(ADJECTIVES[name] for name in names.split())


THINGS = {
    row[0]: Thing(
        Words(row[0], row[2], row[6]),
        Words(row[1], row[3], row[5]),
        row[4],
        adjectives(row[7]),
        row[8] if row[8:] else "",
    )
    for row in rows("""
    book      | books      | Buch        | Bücher       | n | 本 | 书     | age thick red blue     | reading
    newspaper | newspapers | Zeitung     | Zeitungen    | f | 份 | 报纸   | age                    | reading
    letter    | letters    | Brief       | Briefe       | m | 封 | 信     | long                   | reading
    umbrella  | umbrellas  | Regenschirm | Regenschirme | m | 把 | 雨伞   | colour age size        |
    bicycle   | bicycles   | Fahrrad     | Fahrräder    | n | 辆 | 自行车 | colour age value       | sport
    ball      | balls      | Ball        | Bälle        | m | 个 | 球     | colour size            | sport
    lamp      | lamps      | Lampe       | Lampen       | f | 盏 | 台灯   | colour age size value  |
    hat       | hats       | Hut         | Hüte         | m | 顶 | 帽子   | colour age value       |
    picture   | pictures   | Bild        | Bilder       | n | 幅 | 画     | age size beautiful     |
    guitar    | guitars    | Gitarre     | Gitarren     | f | 把 | 吉他   | colour age value       | music
    violin    | violins    | Geige       | Geigen       | f | 把 | 小提琴 | age value              | music
    watch     | watches    | Uhr         | Uhren        | f | 块 | 手表   | age value small        |
    coat      | coats      | Mantel      | Mäntel       | m | 件 | 大衣   | colour age thick value |
    shirt     | shirts     | Hemd        | Hemden       | n | 件 | 衬衫   | colour age value       |
    scarf     | scarves    | Schal       | Schals       | m | 条 | 围巾   | colour age long        |
    blanket   | blankets   | Decke       | Decken       | f | 条 | 毯子   | colour age thick       |
    chair     | chairs     | Stuhl       | Stühle       | m | 把 | 椅子   | colour age value       |
    table     | tables     | Tisch       | Tische       | m | 张 | 桌子   | age size value         |
    camera    | cameras    | Kamera      | Kameras      | f | 台 | 相机   | age value small        |
    key       | keys       | Schlüssel   | Schlüssel    | m | 把 | 钥匙   | age size               |
    bag       | bags       | Tasche      | Taschen      | f | 个 | 包     | colour age size value  |
    suitcase  | suitcases  | Koffer      | Koffer       | m | 个 | 行李箱 | colour age size        | travel
    map       | maps       | Landkarte   | Landkarten   | f | 张 | 地图   | age size               | travel
    vase      | vases      | Vase        | Vasen        | f | 个 | 花瓶   | colour age value       |
    cup       | cups       | Tasse       | Tassen       | f | 个 | 杯子   | colour age size        |
    plate     | plates     | Teller      | Teller       | m | 个 | 盘子   | colour age size        |
    mirror    | mirrors    | Spiegel     | Spiegel      | m | 面 | 镜子   | age size value         |
    ring      | rings      | Ring        | Ringe        | m | 枚 | 戒指   | age value              |
    dog       | dogs       | Hund        | Hunde        | m | 只 | 狗     | fur                    | animals
    cat       | cats       | Katze       | Katzen       | f | 只 | 猫     | fur                    | animals
    bird      | birds      | Vogel       | Vögel        | m | 只 | 鸟     | yellow green blue small | animals
    rabbit    | rabbits    | Kaninchen   | Kaninchen    | n | 只 | 兔子   | fur                    | animals
    """)
}


def portions(topic: str, table: str) -> list[Portion]:
    """Fixed phrases; the German ones are accusatives."""
    return [Portion(words, topic) for words in triples(table)]


FOOD = portions(
    "food",
    """
    a piece of cake   | ein Stück Kuchen  | 一块蛋糕
    an apple          | einen Apfel       | 一个苹果
    a plate of noodles | einen Teller Nudeln | 一盘面条
    a bowl of rice    | eine Schale Reis  | 一碗米饭
    a sandwich        | ein Sandwich      | 一个三明治
    an ice cream      | ein Eis           | 一个冰淇淋
    a pizza           | eine Pizza        | 一个比萨饼
    """,
)
DRINKS = portions(
    "food",
    """
    a cup of tea           | eine Tasse Tee     | 一杯茶
    a cup of coffee        | eine Tasse Kaffee  | 一杯咖啡
    a glass of milk        | ein Glas Milch     | 一杯牛奶
    a glass of water       | ein Glas Wasser    | 一杯水
    a glass of apple juice | ein Glas Apfelsaft | 一杯苹果汁
    """,
)
FOOTBALL = portions("sport", "football | Fußball | 足球")
BALL_GAMES = portions(
    "sport",
    """
    tennis     | Tennis     | 网球
    basketball | Basketball | 篮球
    """,
)
STRINGS = portions(
    "music",
    """
    the guitar | Gitarre | 吉他
    the piano  | Klavier | 钢琴
    """,
)
VIOLIN = portions("music", "the violin | Geige | 小提琴")
MISSED = portions(
    "travel",
    """
    the train | den Zug      | 火车
    the bus   | den Bus      | 公共汽车
    the plane | das Flugzeug | 飞机
    """,
)

TIMES = triples("""
    yesterday                | gestern         | 昨天
    the day before yesterday | vorgestern      | 前天
    this morning             | heute Morgen    | 今天早上
    last night               | gestern Abend   | 昨天晚上
    last week                | letzte Woche    | 上周
    last month               | letzten Monat   | 上个月
    last summer              | letzten Sommer  | 去年夏天
    last winter              | letzten Winter  | 去年冬天
    last year                | letztes Jahr    | 去年
    two days ago             | vor zwei Tagen  | 两天前
    three weeks ago          | vor drei Wochen | 三个星期前
    on Monday                | am Montag       | 星期一
    on Tuesday               | am Dienstag     | 星期二
    on Friday                | am Freitag      | 星期五
    on Saturday              | am Samstag      | 星期六
    on Sunday                | am Sonntag      | 星期天
    in March                 | im März         | 三月
    in May                   | im Mai          | 五月
    in October               | im Oktober      | 十月
""")
VEHICLES = triples("""
    by train | mit dem Zug      | 坐火车
    by bus   | mit dem Bus      | 坐公共汽车
    by plane | mit dem Flugzeug | 坐飞机
    by ship  | mit dem Schiff   | 坐船
    by car   | mit dem Auto     | 开车
""")

GLAD = triples("""
    happy    | glücklich   | 高兴
    cheerful | fröhlich    | 快乐
    content  | zufrieden   | 满意
    proud    | stolz       | 自豪
    relieved | erleichtert | 安心
""")
SAD = triples("""
    sad          | traurig    | 难过
    angry        | wütend     | 生气
    disappointed | enttäuscht | 失望
    lonely       | einsam     | 孤独
    nervous      | nervös     | 紧张
    worried      | besorgt    | 担心
""")
JOBS = [
    Job(Words(row[0], row[1], row[3]), row[2])
    for row in rows("""
    teacher   | Lehrer         | Lehrerin         | 老师
    doctor    | Arzt           | Ärztin           | 医生
    baker     | Bäcker         | Bäckerin         | 面包师
    painter   | Maler          | Malerin          | 画家
    musician  | Musiker        | Musikerin        | 音乐家
    gardener  | Gärtner        | Gärtnerin        | 园丁
    cook      | Koch           | Köchin           | 厨师
    engineer  | Ingenieur      | Ingenieurin      | 工程师
    writer    | Schriftsteller | Schriftstellerin | 作家
    """)
]


def somebody(chance: Chance, *, full: float = 0.4) -> Person:
    """Anybody, with a family name at the given probability."""
    female = chance.happens(0.5)
    given = chance.pick(WOMEN if female else MEN)
    return Person(given, female, chance.pick(FAMILIES) if chance.happens(full) else None)


def somebody_else(chance: Chance, known: Sequence[Person], *, full: float = 0.4) -> Person:
    """Anybody with another given name, so that a given name is enough to tell them apart."""
    names = {one.given for one in known}
    while (person := somebody(chance, full=full)).given in names:
        pass
    return person


def company(chance: Chance) -> Organisation:
    name, kind = chance.pick(COMPANY_NAMES), chance.pick(COMPANY_KINDS)
    return Organisation(Words(f"{name.en} {kind.en}", f"{name.de} {kind.de}", name.zh + kind.zh))


def item(chance: Chance, names: Sequence[str], *, several: float = 0.0) -> Item:
    """One of some things, mostly with an adjective, sometimes two to four of it."""
    thing = THINGS[chance.pick(names)]
    adjective = chance.pick(thing.adjectives) if chance.happens(0.7) else None
    return Item(thing, adjective, 2 + chance.below(3) if chance.happens(several) else 1)
